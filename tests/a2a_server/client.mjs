// Speaks to an A2A server with the official JavaScript SDK: node client.mjs URL BINDING
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(pathToFileURL(process.cwd() + "/"));
const sdk = await import(pathToFileURL(require.resolve("@a2a-js/sdk/client").replace(/\.cjs$/, ".js")));
const [url, binding] = process.argv.slice(2);
const transport = binding === "JSONRPC" ? new sdk.JsonRpcTransportFactory() : new sdk.RestTransportFactory();
const factory = new sdk.ClientFactory({ transports: [transport], preferredTransports: [binding] });
const client = await factory.createFromUrl(url);
const message = {
  messageId: crypto.randomUUID(), contextId: "", taskId: "", role: 1, extensions: [], referenceTaskIds: [],
  metadata: undefined,
  parts: [{ content: { $case: "text", value: "hi" }, metadata: undefined, filename: "", mediaType: "" }],
};
const request = { tenant: "", message, configuration: undefined, metadata: undefined };
const sent = await client.sendMessage(request);
const kinds = [];
const again = { ...request, message: { ...message, messageId: crypto.randomUUID() } };
for await (const event of client.sendMessageStream(again)) kinds.push(event.payload?.$case ?? event.$case ?? Object.keys(event)[0]);
console.log(JSON.stringify({ sent, kinds }));
