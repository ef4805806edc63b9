"""AgentDojo's suites as a process: runs in an environment of its own and answers JSON lines on its pipes.

    {"do": "suites"}                         every suite: tools, tasks, ground truth, where injections are read
    {"do": "begin", "run": 1, "suite": "slack", "task": "user_task_0"}
    {"do": "call", "run": 1, "tool": "get_channels", "arguments": {}}
    {"do": "end", "run": 1, "output": "…", "injection": "injection_task_1"}     was it useful, did the attack succeed

Started by `bench/taint.py` with the interpreter that has `agentdojo`; it imports nothing of Retinue.
"""

import json
import sys

from agentdojo.agent_pipeline.tool_execution import tool_result_to_str
from agentdojo.functions_runtime import FunctionCall, FunctionsRuntime
from agentdojo.task_suite.load_suites import get_suites
from agentdojo.types import text_content_block_from_string

VERSION = "v1.2.2"
CANARY = "canary-7f3a"
SUITES = get_suites(VERSION)
DEFAULTS = {name: suite.load_and_inject_default_environment({}) for name, suite in SUITES.items()}
RUNS = {}


def suites():
    return {name: _suite(name, suite) for name, suite in SUITES.items()}


def _suite(name, suite):
    environment = DEFAULTS[name]
    return {
        "tools": [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters.model_json_schema()}
            for tool in suite.tools
        ],
        "users": {
            id: {
                "prompt": task.PROMPT,
                "output": task.GROUND_TRUTH_OUTPUT,
                "calls": _calls(task, task.init_environment(environment.model_copy(deep=True))),
                "exposed": _exposed(suite, task),
            }
            for id, task in suite.user_tasks.items()
        },
        "injections": {
            id: {
                "goal": task.GOAL,
                "output": task.GROUND_TRUTH_OUTPUT,
                "calls": _calls(task, environment.model_copy(deep=True)),
            }
            for id, task in suite.injection_tasks.items()
        },
    }


def _calls(task, environment):
    return [{"tool": call.function, "arguments": dict(call.args)} for call in task.ground_truth(environment)]


def _exposed(suite, task):
    """The first call of the ground truth whose result shows an injection; None when none does."""
    injections = dict.fromkeys(suite.get_injection_vector_defaults(), CANARY)
    environment = task.init_environment(suite.load_and_inject_default_environment(injections))
    runtime = FunctionsRuntime(suite.tools)
    for index, call in enumerate(task.ground_truth(environment)):
        result, _ = runtime.run_function(environment, call.function, dict(call.args))
        if CANARY in tool_result_to_str(result):
            return index
    return None


def begin(run, suite, task):
    environment = SUITES[suite].user_tasks[task].init_environment(DEFAULTS[suite].model_copy(deep=True))
    RUNS[run] = {
        "suite": SUITES[suite],
        "task": SUITES[suite].user_tasks[task],
        "environment": environment,
        "before": environment.model_copy(deep=True),
        "runtime": FunctionsRuntime(SUITES[suite].tools),
        "trace": [],
    }


def call(run, tool, arguments):
    state = RUNS[run]
    result, error = state["runtime"].run_function(state["environment"], tool, arguments)
    state["trace"].append(FunctionCall(function=tool, args=arguments))
    return {"text": tool_result_to_str(result), "error": error}


def end(run, output, injection):
    state = RUNS.pop(run)
    checked = ([text_content_block_from_string(output)], state["before"], state["environment"], state["trace"])
    suite = state["suite"]
    attack = suite.injection_tasks[injection] if injection else None
    return {
        "useful": suite._check_task_result(state["task"], *checked),
        "attacked": bool(attack) and suite._check_task_result(attack, *checked),
    }


ACTIONS = {"suites": suites, "begin": begin, "call": call, "end": end}

for line in sys.stdin:
    wanted = json.loads(line)
    print(json.dumps(ACTIONS[wanted.pop("do")](**wanted), default=str), flush=True)
