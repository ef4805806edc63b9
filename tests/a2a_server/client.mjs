// Speaks to an A2A server with the official JavaScript SDK: node client.mjs URL BINDING
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(pathToFileURL(process.cwd() + "/"));
const sdk = await import(pathToFileURL(require.resolve("@a2a-js/sdk/client").replace(/\.cjs$/, ".js")));
const [url, binding] = process.argv.slice(2);
const transport = binding === "JSONRPC" ? new sdk.JsonRpcTransportFactory() : new sdk.RestTransportFactory();
const factory = new sdk.ClientFactory({ transports: [transport], preferredTransports: [binding] });
const client = await factory.createFromUrl(url);

const request = (prefix, taskId = "", contextId = "") => ({
  tenant: "", configuration: undefined, metadata: undefined,
  message: {
    messageId: `${prefix}-${crypto.randomUUID()}`, contextId, taskId, role: 1, extensions: [], referenceTaskIds: [],
    metadata: undefined,
    parts: [{ content: { $case: "text", value: "hi" }, metadata: undefined, filename: "", mediaType: "" }],
  },
});
const kind = (event) => event.payload?.$case ?? event.$case ?? Object.keys(event)[0];
const refusal = async (asked) => {
  try { await asked; return "none"; } catch (error) { return error.constructor.name.replace(/^(JsonRpc|Rest)/, ""); }
};

const sent = await client.sendMessage(request("tck-complete-task", "", "js"));
const kinds = [];
for await (const event of client.sendMessageStream(request("tck-stream-001"))) kinds.push(kind(event));
const alone = [];
for await (const event of client.sendMessageStream(request("tck-message-response"))) alone.push(kind(event));

const asked = await client.sendMessage(request("tck-input-required"));
const id = asked.id ?? asked.task?.id;
const heard = [];
for await (const event of client.resubscribeTask({ tenant: "", id })) {
  heard.push(kind(event));
  if (heard.length === 1) await client.sendMessage(request("tck-answer", id));
}
const got = await client.getTask({ tenant: "", id, historyLength: undefined });
const listed = await client.listTasks({
  tenant: "", contextId: "js", status: 0, pageSize: undefined, pageToken: "", historyLength: undefined,
  statusTimestampAfter: undefined, includeArtifacts: undefined,
});
const waiting = await client.sendMessage(request("tck-input-required"));
const canceled = await client.cancelTask({ tenant: "", id: waiting.id ?? waiting.task?.id, metadata: undefined });
console.log(JSON.stringify({
  sent, kinds, alone, heard, state: [got.status.state, canceled.status.state], total: listed.tasks.length,
  refused: [
    await refusal(client.getTask({ tenant: "", id: "none", historyLength: undefined })),
    await refusal(client.cancelTask({ tenant: "", id, metadata: undefined })),
    await refusal(client.sendMessage(request("tck-late", id))),
  ],
}));
