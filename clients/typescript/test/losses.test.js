/** Lost connections, restarted servers, and servers that are not the expected one. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, describe, test } from "node:test";

import { connect, NotAdmittedError, UnreachableError } from "@interlock/client";
import { Network, Server, until } from "./support/interlock.js";

const network = new Network();
let server, operator;

before(async () => {
  await network.open();
  server = await new Server({ hosts: [network.name] }).start();
  network.target = server.url;
  operator = await server.operator();
});

after(async () => {
  operator?.close();
  network.close();
  await server?.stop();
  server?.remove();
});

describe("a lost connection", () => {
  test("is opened again, and the same question asked", async () => {
    const client = await server.client({ url: network.url });
    const session = await client.openSession("bot");
    let ran = 0;
    const running = session.gate("refund", () => ++ran)({ amount: 1 });
    const [request] = await operator.waiting();
    network.cut();
    await session.gate("lint", () => "clean")({});
    assert.deepEqual((await operator.waiting()).map(({ id }) => id), [request.id]);
    network.cut();
    await operator.decide(request, true);
    assert.equal(await running, 1);
    network.cut();
    assert.equal(await session.gate("lint", () => "clean")({}), "clean");
    await session.close();
    await client.close();
  });

  test("while a tool runs does not lose its result", async () => {
    const client = await server.client({ url: network.url });
    const session = await client.openSession("bot");
    const cut = () => {
      network.cut();
      return "clean";
    };
    assert.equal(await session.gate("lint", cut)({}, { callId: "cut" }), "clean");
    assert.equal((await operator.calls(session.id)).cut.output, "clean");
    await client.close();
  });

  test("of a client that is closed lets nothing run", async () => {
    const client = await server.client();
    const session = await client.openSession("bot");
    const running = assert.rejects(session.gate("refund", () => assert.fail("it ran"))({ n: 5 }), UnreachableError);
    const [request] = await operator.waiting();
    await client.close();
    await running;
    await operator.decide(request, false);
    await assert.rejects(session.call("lint", {}), UnreachableError);
  });
});

describe("several servers", () => {
  test("are tried one after the other", async () => {
    const closed = await new Network().open();
    closed.close();
    const client = await server.client({ url: `${closed.url}, ${server.url}` });
    const session = await client.openSession("bot");
    assert.equal(await session.gate("lint", () => "clean")({}), "clean");
    await session.close();
    await client.close();
  });
});

describe("no server", () => {
  test("lets nothing run, and patience ends", async () => {
    const closed = await new Network().open();
    closed.close();
    const began = Date.now();
    await assert.rejects(connect(closed.url, { token: server.token, patience: 0.5 }), UnreachableError);
    assert.ok(Date.now() - began < 20_000);
  });

  test("is found by all that wait, or by none", async () => {
    const line = await new Network().open();
    const other = await new Server({ hosts: [line.name] }).start();
    line.target = other.url;
    const client = await other.client({ url: line.url, patience: 1 });
    const session = await client.openSession("bot");
    await other.stop("SIGKILL");
    const calls = Array.from({ length: 10 }, (_, n) => session.gate("lint", () => assert.fail("it ran"))({ n }));
    for (const { status, reason } of await Promise.allSettled(calls)) {
      assert.equal(status, "rejected");
      assert.ok(reason instanceof UnreachableError, String(reason));
    }
    await client.close();
    line.close();
    other.remove();
  });
});

describe("a token", () => {
  test("that the server does not know is not sent", async () => {
    await assert.rejects(
      connect(server.url, { token: "ilk_agent_wrong_wrong", patience: 30 }),
      (error) => error instanceof NotAdmittedError && /does not know this token, which was not sent/.test(error.message),
    );
  });

  test("of an operator is not for agents", async () => {
    const token = readFileSync(`${server.config}/operator.token`, "utf8").trim();
    await assert.rejects(connect(server.url, { token }), (error) => {
      assert.ok(error instanceof NotAdmittedError);
      assert.match(error.message, /\/agent needs an agent/);
      assert.ok(!error.message.includes(token));
      return true;
    });
  });
});

describe("a server that is started again", () => {
  test("goes on with a call that waits", async () => {
    const own = await new Server().start();
    const client = await own.client({ patience: 60 });
    const session = await client.openSession("bot");
    await session.gate("test", () => "12 passed")({});
    let ran = 0;
    const running = session.gate("deploy", () => ++ran)({ to: "prod" });
    let ada = await own.operator();
    const [first] = await ada.waiting();
    ada.close();
    await own.stop("SIGKILL");
    await own.start();
    ada = await own.operator();
    const [again] = await until(async () => {
      const found = await ada.waiting();
      return found[0].call_id === first.call_id ? found : null;
    });
    await ada.decide(again, true);
    assert.equal(await running, 1);
    assert.equal(session.ended, null);
    ada.close();
    await client.close();
    await own.stop();
    own.remove();
  });

});

describe("a session", () => {
  test("is found by another process, with the call that waits in it", async () => {
    const first = await server.client();
    const session = await first.openSession("bot", { session: "thread-7" });
    const asked = await session.call("refund", { amount: 3 }, { callId: "r", wait: 0.1 });
    assert.equal(asked.outcome, "waiting");
    await first.close();
    const second = await server.client();
    const resumed = await second.resumeSession("thread-7");
    const running = resumed.gate("refund", ({ amount }) => amount)({ amount: 3 }, { callId: "r" });
    await operator.decideNext(true);
    assert.equal(await running, 3);
    await second.close();
  });
});

describe("a Unix socket", () => {
  test("is an address as any other", async () => {
    const own = new Server();
    await own.start("unix:gate.sock");
    const client = await own.client({ url: `unix:${own.directory}/gate.sock` });
    const session = await client.openSession("bot");
    assert.equal(await session.gate("lint", () => "clean")({}), "clean");
    await client.close();
    await own.stop();
    own.remove();
  });
});

const folder = process.env.INTERLOCK_TEST_TLS;

describe("TLS", { skip: folder === undefined && "INTERLOCK_TEST_TLS names no folder with a certificate" }, () => {
  test("has the certificate checked", async () => {
    const certificate = `${folder}/cert.pem`;
    const own = await new Server({ tls: { certificate, key: `${folder}/key.pem` } }).start();
    const client = await own.client({ ca: certificate });
    const session = await client.openSession("bot");
    assert.equal(await session.gate("lint", () => "clean")({}), "clean");
    await client.close();
    await assert.rejects(own.client(), (error) => {
      assert.ok(error instanceof NotAdmittedError, String(error));
      assert.match(error.message, /certificate is not trusted/);
      return true;
    });
    await assert.rejects(own.client({ ca: `${folder}/key.pem` }), TypeError);
    await own.stop();
    own.remove();
  });
});
