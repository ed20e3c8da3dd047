/** Types as used by a program: each line marked as an error must be one. Never run. */

import {
  Blocked,
  connect,
  RequestFailedError,
  type Answer,
  type Gated,
  type JsonObject,
} from "../src/index.ts";

interface Target {
  env: string;
  count?: number;
}

export async function program(): Promise<void> {
  await using client = await connect("wss://hub.example", { token: "…", patience: 5, ca: "ca.pem" });
  await using session = await client.openSession("bot", { rules: ["deploy"], mode: "enforce", shell: "bash" });

  const deploy: Gated<Target, string> = session.gate("deploy", async ({ env }: Target) => `deployed to ${env}`);
  const done: string = await deploy({ env: "prod" }, { callId: "c1", signal: AbortSignal.timeout(1000) });
  const count: Gated<{ text: string }, number> = session.gate("count", ({ text }: { text: string }) => text.length, {
    parse: (input: JsonObject) => ({ text: String(input["text"]) }),
    isError: (_tool, value) => value === 0,
    tell: (result, notice) => result + notice.length,
  });
  // @ts-expect-error: the input is the function's
  await deploy({ env: 1 });
  // @ts-expect-error: the result is the function's
  const wrong: number = await deploy({ env: "prod" });
  // @ts-expect-error: no such mode
  await client.openSession("bot", { mode: "off" });
  // @ts-expect-error: an input is an object
  await session.call("deploy", "prod");

  const answer: Answer = await session.call("deploy", { env: "prod" }, { wait: 50 });
  // @ts-expect-error: only what was allowed has an input
  console.log(answer.input);
  switch (answer.outcome) {
    case "allow": {
      const input: JsonObject = answer.input;
      const notice: string | null = answer.notice;
      console.log(input, notice, answer.approved_by.join());
      await session.result("c2", done, { unknown: true, seconds: 1.5 });
      break;
    }
    case "block":
    case "waiting": {
      const reason: string = answer.reason;
      console.log(reason, await count({ text: reason }));
      break;
    }
    default: {
      const none: never = answer;
      console.log(none, wrong);
    }
  }
  try {
    const until: Date | null = await session.giveUp("c3");
    console.log(until, (await session.explain("rm", {})).nets[0]?.verdict === "blocked");
  } catch (error) {
    if (error instanceof RequestFailedError) console.log(error.code, error.data["limit"]);
    if (error instanceof Blocked) console.log(error.tool, error.callId, error.reason);
  }
}
