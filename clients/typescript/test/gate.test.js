/** Calls at a real server: allowed calls run with the approved input, and their outcome is recorded. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Blocked, connect, GatewayError, RequestFailedError } from "@interlock/client";
import { Server, until } from "./support/interlock.js";

const server = new Server();
let client, operator, session;

before(async () => {
  await server.start();
  client = await server.client({ name: "gate.test.js" });
  operator = await server.operator();
  session = await client.openSession("bot", { tools: ["test", "deploy"] });
});

after(async () => {
  await client?.close();
  operator?.close();
  await server.stop();
  server.remove();
});

test("an allowed call runs, and its result is recorded", async () => {
  const lint = session.gate("lint", async ({ path }) => `${path} is clean`);
  assert.equal(await lint({ path: "src" }, { callId: "lint-1" }), "src is clean");
  const call = (await operator.calls(session.id))["lint-1"];
  assert.equal(call.output, "src is clean");
  assert.equal(call.status, "done");
});

test("a blocked call does not run, and says why", async () => {
  let ran = 0;
  const remove = session.gate("rm", () => ran++);
  await assert.rejects(remove({ path: "/" }), (error) => {
    assert.ok(error instanceof Blocked);
    assert.equal(error.tool, "rm");
    assert.match(error.message, /^Tool 'rm' blocked: .+/);
    return true;
  });
  assert.equal(ran, 0);
  const answer = await session.call("rm", { path: "/" });
  assert.equal(answer.outcome, "block");
  assert.equal("input" in answer, false);
});

test("a call that waits runs once it is approved", async () => {
  await session.gate("test", () => "12 passed")({});
  const deploy = session.gate("deploy", ({ to }) => `deployed to ${to}`);
  const running = deploy({ to: "prod" });
  await operator.decideNext(true);
  assert.equal(await running, "deployed to prod");
});

test("a denied call does not run, and has the operator's reason", async () => {
  await session.gate("test", () => "12 passed")({});
  let ran = 0;
  const running = session.gate("deploy", () => ran++)({ to: "prod" });
  const refused = assert.rejects(running, /not on a Friday/);
  await operator.decideNext(false, { reason: "not on a Friday" });
  await refused;
  assert.equal(ran, 0);
});

test("an edited input is the one that runs, and the result says so", async () => {
  const seen = [];
  const refund = session.gate("refund", (input) => {
    seen.push(input);
    return `refunded ${input.amount}`;
  });
  const running = refund({ amount: 400, customer: { id: 7 } }, { callId: "refund-1" });
  await operator.decideNext(true, { input: { amount: 40, customer: { id: 7 } } });
  assert.equal(await running, "refunded 40\n\nA person changed amount from 400 to 40 before it ran.");
  assert.deepEqual(seen, [{ amount: 40, customer: { id: 7 } }]);
  assert.equal((await operator.calls(session.id))["refund-1"].output, "refunded 40");
});

test("an edit can be told in another way, and is parsed before it runs", async () => {
  const parse = (input) => {
    if (typeof input.amount !== "number") throw new TypeError("amount is a number");
    return input;
  };
  const tell = (result, notice) => ({ ...result, notice });
  const refund = session.gate("refund", ({ amount }) => ({ amount }), { parse, tell });
  const running = refund({ amount: 400 });
  await operator.decideNext(true, { input: { amount: 41 } });
  assert.deepEqual(await running, { amount: 41, notice: "A person changed amount from 400 to 41 before it ran." });
  const refused = assert.rejects(refund({ amount: 400 }, { callId: "unfit" }), /amount is a number/);
  await operator.decideNext(true, { input: { amount: "all" } });
  await refused;
  const call = (await operator.calls(session.id)).unfit;
  assert.equal(call.status, "failed");
});

test("a tool that throws has failed, and so has one that returns a failure", async () => {
  const fails = session.gate("lint", () => {
    throw new RangeError("no such file");
  });
  await assert.rejects(fails({}, { callId: "thrown" }), RangeError);
  const says = session.gate("lint", () => ({ ok: false }));
  assert.deepEqual(await says({}, { callId: "returned" }), { ok: false });
  const fine = session.gate("lint", () => ({ ok: false }), { isError: () => false });
  await fine({}, { callId: "fine" });
  const calls = await operator.calls(session.id);
  assert.equal(calls.thrown.output, "RangeError: no such file");
  assert.deepEqual(
    [calls.thrown.status, calls.returned.status, calls.fine.status],
    ["failed", "failed", "done"],
  );
});

test("a tool that failed opens nothing", async () => {
  const other = await client.openSession("bot");
  await other.gate("test", () => "Error: 3 failed")({});
  const answer = await other.call("deploy", {});
  assert.equal(answer.outcome, "block");
  await other.close();
});

test("a tool that is cut off is unknown", async () => {
  const cut = new AbortController();
  const slow = session.gate("lint", (_, { signal }) => {
    cut.abort(new Error("enough"));
    signal.throwIfAborted();
  });
  await assert.rejects(slow({}, { callId: "cut", signal: cut.signal }), /enough/);
  const call = (await operator.calls(session.id)).cut;
  assert.notEqual(call.status, "done");
  assert.match(call.output, /^Outcome unknown/);
});

test("a call that is aborted while it waits is withdrawn", async () => {
  const cut = new AbortController();
  let ran = 0;
  const refund = session.gate("refund", () => ran++);
  const refused = assert.rejects(refund({ amount: 9 }, { signal: cut.signal }), /never mind/);
  await operator.waiting();
  cut.abort(new Error("never mind"));
  await refused;
  await operator.nothingWaits();
  assert.equal(ran, 0);
  await assert.rejects(refund({ amount: 9 }, { signal: cut.signal }), /never mind/);
});

test("parallel calls each get their own answer", async () => {
  const double = session.gate("lint", async ({ n }) => n * 2);
  const numbers = Array.from({ length: 40 }, (_, n) => n);
  const found = await Promise.all(numbers.map((n) => double({ n })));
  assert.deepEqual(found, numbers.map((n) => n * 2));
  const refund = session.gate("refund", async ({ n }) => n);
  const waiting = Promise.allSettled([1, 2, 3].map((n) => refund({ n })));
  for (const request of await operator.waiting(3)) {
    await operator.decide(request, request.input.n !== 2);
  }
  const ends = await waiting;
  assert.deepEqual(ends.map(({ status }) => status), ["fulfilled", "rejected", "fulfilled"]);
});

test("an id asks one question, and a model's repeated one is renamed", async () => {
  const first = await session.call("refund", { amount: 1 }, { callId: "same", wait: 0.1 });
  assert.equal(first.outcome, "waiting");
  const again = session.call("refund", { amount: 1 }, { callId: "same" });
  assert.equal((await operator.waiting()).length, 1);
  await operator.decideNext(true);
  const answer = await again;
  assert.equal(answer.outcome, "allow");
  assert.equal(answer.approved, true);
  await assert.rejects(session.call("refund", { amount: 2 }, { callId: "same" }), RequestFailedError);
  const lint = session.gate("lint", ({ n }) => n);
  assert.equal(await lint({ n: 1 }, { callId: "same" }), 1);
  await session.result("same", "done");
});

test("the same id does not run twice at once", async () => {
  let release;
  let ran = 0;
  const slow = session.gate("lint", () => {
    ran++;
    return new Promise((resolve) => (release = resolve));
  });
  const first = slow({}, { callId: "twice" });
  await assert.rejects(slow({}, { callId: "twice" }), Blocked);
  await until(() => release);
  release("done");
  assert.equal(await first, "done");
  assert.equal(ran, 1);
});

test("a plan is shown, and its calls are asked for one by one", async () => {
  const planning = session.plan("two refunds", [{ tool: "refund", count: 2 }], { callId: "plan" });
  await operator.decideNext(true);
  const answer = await planning;
  assert.equal(answer.outcome, "allow");
  assert.match(answer.reason, /2 refund/);
  assert.equal((await operator.calls(session.id)).plan.status, "done");
  const refund = session.gate("refund", ({ n }) => n);
  assert.deepEqual([await refund({ n: 1 }), await refund({ n: 2 })], [1, 2]);
});

test("a call can be withdrawn or left open", async () => {
  const asked = { callId: "left", wait: 0.1 };
  assert.equal((await session.call("refund", { amount: 77 }, asked)).outcome, "waiting");
  const end = await session.giveUp("left", "the program ends");
  assert.ok(end === null || end > new Date());
  assert.equal((await session.call("refund", { amount: 78 }, { callId: "back", wait: 0.1 })).outcome, "waiting");
  await session.withdraw("back", "not needed");
});

test("what an operator could not see is not asked", async () => {
  const lint = session.gate("lint", () => assert.fail("it ran"));
  const circle = {};
  circle.circle = circle;
  for (const input of [
    { at: new Date() },
    { n: Number.NaN },
    { n: 10n },
    { f: () => 1 },
    { m: new Map([[1, 2]]) },
    { half: "\ud800" },
    { "\udfff": 1 },
    { deep: [{ u: Symbol("x") }] },
    circle,
    [1],
    new (class Path {})(),
  ]) {
    await assert.rejects(lint(input), (error) => error instanceof TypeError || error instanceof RangeError);
  }
  const strange = JSON.parse('{"__proto__": {"a": 1}, "n": 0.1}');
  const echo = session.gate("lint", (input) => JSON.stringify(input));
  assert.equal(await echo({ ...strange, none: undefined }), '{"__proto__":{"a":1},"n":0.1}');
});

test("the server explains, prompts, and hears of messages", async () => {
  const explained = await session.explain("rm", { path: "/" });
  assert.equal(explained.outcome, "block");
  assert.ok(explained.nets.some(({ verdict }) => verdict === "blocked"));
  assert.match(await session.prompt(), /rm/);
  await session.reportMessage("assistant", "I begin");
  await session.call("lint", {}, { callId: "open" });
  await session.endTurn();
  assert.match((await operator.calls(session.id)).open.output, /unknown/i);
});

test("a long result is shortened to its beginning", async () => {
  const lint = session.gate("lint", () => "ä".repeat(2 << 20));
  await lint({}, { callId: "long" });
  assert.match((await operator.calls(session.id)).long.output, /…/);
});

test("a session that an operator ends lets nothing run any more", async () => {
  const other = await client.openSession("bot");
  await operator.link.exchange("session.end", { session: other.id });
  await until(() => other.ended);
  await assert.rejects(other.gate("lint", () => assert.fail("it ran"))({}), /has ended/);
});

test("one token does not find another one's session, nor one that was closed", async () => {
  await assert.rejects(client.resumeSession("nobody"), GatewayError);
  const other = await client.openSession("bot");
  await other.close();
  await other.close();
  await assert.rejects(other.call("lint", {}), /has ended/);
});

test("the usual token and address are used where none is given", async () => {
  process.env.INTERLOCK_CONFIG_DIR = server.config;
  process.env.INTERLOCK_URL = server.url;
  try {
    const usual = await connect();
    const found = await usual.openSession("bot");
    assert.equal((await found.call("lint", {})).outcome, "allow");
    await found.close();
    await usual.close();
  } finally {
    delete process.env.INTERLOCK_CONFIG_DIR;
    delete process.env.INTERLOCK_URL;
  }
});
