/** Servers that violate the protocol: nothing runs, and the token is not disclosed. */

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { createServer as createTcpServer } from "node:net";
import { test } from "node:test";

import { connect, GatewayError, InexactNumberError, NotAdmittedError, UnreachableError } from "@interlock/client";
import { Fake, frame, TOKEN, WELCOME } from "./support/fake.js";

/** Return a client of a server with these answers, for one test. */
async function withFake(context, answers, terms) {
  const fake = await new Fake(answers, terms).open();
  context.after(() => fake.close());
  return fake;
}

async function session(context, fake, patience = 0) {
  const client = await connect(fake.url, { token: TOKEN, patience });
  context.after(() => client.close());
  return client.openSession("bot");
}

const allow = (more = {}) => ({ outcome: "allow", input: {}, ...more });

test("an answer that makes no sense lets nothing run", async (context) => {
  const answers = [
    {},
    { outcome: "maybe", input: {} },
    { outcome: "allow" },
    { outcome: "allow", input: [] },
    { outcome: "allow", input: null },
    { outcome: ["allow"], input: {} },
    { outcome: "allow", input: {}, edited: "no" },
    { outcome: "ALLOW", input: {} },
    "allow",
    null,
    { error: { code: -32603, message: "no" } },
    { error: "no" },
  ];
  const fake = await withFake(context, { "tool.call": () => answers.shift() });
  const found = await session(context, fake);
  const lint = found.gate("lint", () => assert.fail("it ran"));
  while (answers.length > 0) await assert.rejects(lint({}), GatewayError);
});

test("what a later server adds is passed over", async (context) => {
  const fake = await withFake(context, { "tool.call": allow({ tomorrow: 1 }) });
  const found = await session(context, fake);
  assert.equal(await found.gate("lint", () => "ran")({}), "ran");
  const answer = await found.call("lint", {});
  assert.deepEqual(answer, {
    outcome: "allow",
    input: {},
    approved: false,
    approved_by: [],
    edited: false,
    reason: null,
    notice: null,
    mode: "enforce",
    repeated: false,
    would: null,
  });
});

test("a number that JavaScript would change does not run, and that is reported", async (context) => {
  const inputs = ['{"n":9007199254740993}', '{"n":[1e999]}', '{"s":"9007199254740993","n":12345678901234567891}'];
  const fake = await withFake(context, {
    "tool.call": (_, id) =>
      frame(`{"jsonrpc":"2.0","id":${id},"result":{"outcome":"allow","input":${inputs.shift()}}}`),
  });
  const found = await session(context, fake);
  for (let n = 0; n < 3; n++) {
    await assert.rejects(found.gate("lint", () => assert.fail("it ran"))({}), InexactNumberError);
    const { method, params } = fake.asked.at(-1);
    assert.equal(method, "tool.result");
    assert.equal(params.is_error, true);
    assert.match(params.output, /was not run/);
  }
});

test("numbers that JavaScript holds are what they are", async (context) => {
  const input = '{"a":9007199254740992,"b":1e21,"c":0.1,"d":1.0,"e":"9007199254740993 1e999","f":12345678901234567000}';
  const fake = await withFake(context, {
    "tool.call": (_, id) => frame(`{"jsonrpc":"2.0","id":${id},"result":{"outcome":"allow","input":${input}}}`),
  });
  const found = await session(context, fake);
  assert.deepEqual((await found.call("lint", {})).input, JSON.parse(input));
});

test("a server that grants an input of another shape has it told as an edit", async (context) => {
  const fake = await withFake(context, { "tool.call": allow({ input: { b: 2 }, edited: true }) });
  const found = await session(context, fake);
  const answer = await found.call("lint", { a: "x" });
  assert.equal(answer.notice, "A person removed a and added b: 2 before it ran.");
});

test("a version that this client does not speak is refused", async (context) => {
  for (const hello of [
    { ...WELCOME, version: 2 },
    { error: { code: -32006, message: "no common version; this server speaks 2" } },
  ]) {
    const fake = await withFake(context, { hello });
    await assert.rejects(connect(fake.url, { token: TOKEN, patience: 30 }), (error) => {
      assert.ok(error instanceof NotAdmittedError, String(error));
      assert.match(error.message, /version/);
      return true;
    });
  }
});

test("a redirect is not followed", async (context) => {
  const seen = [];
  const other = createServer((request, response) => {
    seen.push(request.headers);
    response.end();
  });
  await new Promise((resolve) => other.listen(0, "127.0.0.1", resolve));
  context.after(() => other.close());
  const there = `http://127.0.0.1:${other.address().port}/`;
  const moved = (_, response) => response.writeHead(302, { Location: there }).end();
  const proving = await withFake(context, {}, { proof: moved });
  await assert.rejects(connect(proving.url, { token: TOKEN, patience: 0 }), NotAdmittedError);
  assert.deepEqual(proving.headers.filter(({ authorization }) => authorization), []);
  const upgrade = `HTTP/1.1 307 Moved\r\nLocation: ${there}\r\nContent-Length: 0\r\n\r\n`;
  const moving = await withFake(context, {}, { upgrade });
  await assert.rejects(connect(moving.url, { token: TOKEN, patience: 0 }), NotAdmittedError);
  assert.deepEqual(seen, []);
});

test("a stranger that cannot prove that it knows the token does not get it", async (context) => {
  const answers = [
    [200, "0".repeat(64)],
    [200, ""],
    [404, "no"],
    [200, "x".repeat(1 << 16)],
  ];
  for (const [status, text] of answers) {
    const proof = (_, response) => response.writeHead(status).end(text);
    const fake = await withFake(context, {}, { proof });
    await assert.rejects(connect(fake.url, { token: TOKEN, patience: 30 }), NotAdmittedError);
    assert.equal(fake.headers.length, 1);
    assert.ok(!JSON.stringify(fake.headers).includes(TOKEN));
  }
  const fake = await withFake(context, {}, { proof: (_, response) => response.writeHead(503).end("busy") });
  await assert.rejects(connect(fake.url, { token: TOKEN, patience: 0 }), (error) => {
    assert.ok(error instanceof UnreachableError);
    return /busy/.test(error.message);
  });
});

test("a stranger that takes over the connection when it is asked for a proof ends nothing", async (context) => {
  const stranger = createTcpServer((stream) => {
    stream.on("error", () => undefined);
    stream.once("data", () => {
      stream.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    });
  });
  await new Promise((resolve) => stranger.listen(0, "127.0.0.1", resolve));
  context.after(() => stranger.close());
  const url = `ws://127.0.0.1:${stranger.address().port}`;
  await assert.rejects(connect(url, { token: TOKEN, patience: 0 }), (error) => {
    assert.ok(error instanceof UnreachableError);
    return /what nobody asked/.test(error.message);
  });
});

test("a notice that has the name of something in every object is passed over", async (context) => {
  const notices = ["constructor", "__proto__", "toString"].map((method) =>
    frame(JSON.stringify({ jsonrpc: "2.0", method, params: {} })),
  );
  const result = (id) => frame(JSON.stringify({ jsonrpc: "2.0", id, result: allow() }));
  const fake = await withFake(context, { "tool.call": (_, id) => Buffer.concat([...notices, result(id)]) });
  const found = await session(context, fake);
  assert.equal((await found.call("lint", {})).outcome, "allow");
});

test("the end of a tool is reported, whatever it gives", async (context) => {
  const fake = await withFake(context, { "tool.call": allow() });
  const found = await session(context, fake);
  const odd = Object.create(null);
  odd.itself = odd;
  assert.equal(await found.gate("lint", () => odd)({}), odd);
  assert.equal(fake.asked.at(-1).params.output, "a value that has no text");
  const error = Object.defineProperty(new Error(), "message", { get: () => assert.fail("no message") });
  await assert.rejects(found.gate("lint", () => Promise.reject(error))({}), Error);
  const { method, params } = fake.asked.at(-1);
  assert.deepEqual([method, params.output, params.is_error], ["tool.result", "Error: a value that has no text", true]);
});

test("what listens there may not be a server of this protocol", async (context) => {
  const heads = [
    "HTTP/1.1 101 OK\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n",
    "HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno",
    "garbage\r\n\r\n",
    "",
  ];
  for (const upgrade of heads) {
    const fake = await withFake(context, {}, { upgrade });
    await assert.rejects(connect(fake.url, { token: TOKEN, patience: 0 }), GatewayError);
  }
});

test("frames that a server must not send end the connection", async (context) => {
  const masked = frame("{}");
  masked[1] |= 0x80;
  const reserved = frame("{}");
  reserved[0] |= 0x40;
  const broken = [
    masked,
    reserved,
    frame("{}", { kind: 2 }),
    frame("{}", { kind: 0 }),
    frame("x".repeat(200), { kind: 9 }),
    frame("", { kind: 9, last: false }),
    frame(Buffer.from([0xff, 0xfe])),
    frame("no JSON"),
    frame("7"),
    Buffer.from([0x81, 127, 0xff, 0, 0, 0, 0, 0, 0, 0]),
    frame(Buffer.from([3, 0xe8]), { kind: 8 }),
  ];
  const fake = await withFake(context, { "tool.call": () => broken.shift() });
  const client = await connect(fake.url, { token: TOKEN, patience: 0 });
  context.after(() => client.close());
  const found = await client.openSession("bot");
  let asked = 0;
  while (broken.length > 0) {
    const before = broken.length;
    // Repeated on new connections, until one is answered.
    fake.answers["tool.call"] = () => (asked++ % 2 === 0 ? broken.shift() : allow());
    assert.equal(await found.gate("lint", () => "ran")({}), "ran", `with ${before} left`);
  }
  assert.equal(asked, 22);
});

test("a message may come in pieces, with a ping in between", async (context) => {
  const fake = await withFake(context, {
    "tool.call": async (_, id) => {
      const text = JSON.stringify({ jsonrpc: "2.0", id, result: allow({ reason: "ä".repeat(70_000) }) });
      const bytes = Buffer.from(text);
      const whole = Buffer.concat([
        frame(bytes.subarray(0, 3), { last: false }),
        frame("hi", { kind: 9 }),
        frame(bytes.subarray(3, 60_001), { kind: 0, last: false }),
        frame(bytes.subarray(60_001), { kind: 0 }),
      ]);
      for (let at = 0; at < whole.length; at += 10_007) {
        fake.stream.write(whole.subarray(at, at + 10_007));
        await new Promise(setImmediate);
      }
    },
  });
  const found = await session(context, fake);
  assert.equal((await found.call("lint", {})).reason, "ä".repeat(70_000));
});

test("an error that names no request ends what was asked", async (context) => {
  const fake = await withFake(context, {
    "tool.call": () => frame('{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"not JSON"}}'),
  });
  const found = await session(context, fake);
  await assert.rejects(found.call("lint", {}), /not JSON/);
});

test("an input larger than the server takes is not sent", async (context) => {
  const fake = await withFake(context, { hello: { ...WELCOME, frame: 10_000 }, "tool.call": allow() });
  const found = await session(context, fake);
  await assert.rejects(found.call("lint", { text: "x".repeat(20_000) }), /10000 at most/);
  assert.ok(fake.asked.every(({ method }) => method !== "tool.call"));
});

test("a lost result is not a success", async (context) => {
  const refused = { error: { code: -32005, message: "the journal refused it" } };
  const fake = await withFake(context, { "tool.call": allow(), "tool.result": refused });
  const found = await session(context, fake);
  let ran = 0;
  const lint = found.gate("lint", () => ++ran);
  await assert.rejects(lint({}, { callId: "c" }), /the journal refused it/);
  await assert.rejects(lint({}, { callId: "c" }), /has already run or is still running/);
  assert.equal(ran, 1);
  const fails = found.gate("lint", () => {
    throw new RangeError("no such file");
  });
  await assert.rejects(fails({}), (error) => error instanceof GatewayError && error.cause instanceof RangeError);
});

test("the span of a call goes to servers that trace, and to no other", async (context) => {
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  for (const traces of [true, false]) {
    const fake = await withFake(context, { hello: { ...WELCOME, traces }, "tool.call": allow() });
    const found = await session(context, fake);
    await found.call("lint", {}, { traceparent });
    assert.equal(fake.asked.at(-1).params.traceparent, traces ? traceparent : undefined);
  }
});

test("an address that would carry the token in clear, or that is none, is refused", async () => {
  for (const url of [
    "ws://hub.example:8737",
    "ws://10.0.0.7:8737",
    "ws://127.0.0.1.example:8737",
    "ws://[::2]:8737",
    "http://127.0.0.1:8737",
    "ws://127.0.0.1:8737/path",
    "ws://ada@127.0.0.1:8737",
    "ws://127.0.0.1:8737?x",
    "unix:",
    "nonsense",
    "wss://hub.example, ws://hub.example",
  ]) {
    await assert.rejects(connect(url, { token: TOKEN }), TypeError, url);
  }
  await assert.rejects(connect("ws://127.0.0.1:9", { token: "two words" }), TypeError);
});
