// An agent's tools behind Interlock's gate, over WebSocket and without any package.
//
//   INTERLOCK_TOKEN=$(cat ~/.config/interlock/agent.token) node docs/examples/agent.ts
//
// Needs Node 22.18 or newer, which runs TypeScript as it is (22.6 with --experimental-strip-types).
// docs/protocol.md has the whole protocol.

declare const process: { env: Record<string, string | undefined>; argv: string[]; exitCode?: number };

type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
type Input = { [key: string]: Json };
type Answer = { outcome: "allow" | "block" | "waiting"; input: Input; reason: string | null };
type Waiting = { resolve: (value: any) => void; reject: (error: Error) => void };

/** The server refused a request; nothing may run because of it. */
class Refused extends Error {}
/** The connection is gone: whatever was asked has to be asked again. */
class Lost extends Error {}

/** One session at a server. Every call is asked until there is an answer; without one nothing runs. */
class Gate {
  readonly #url: string;
  readonly #token: string;
  readonly #agent: string;
  readonly #session: string;
  #socket: Promise<WebSocket> | null = null;
  #waiting = new Map<number, Waiting>();
  #number = 0;

  constructor(url: string, token: string, agent: string) {
    this.#url = url;
    this.#token = token;
    this.#agent = agent;
    // An id of our own, so that opening can be repeated.
    this.#session = `${agent}-${crypto.randomUUID().slice(0, 12)}`;
  }

  /** `run` behind the gate: it gets exactly the input that was allowed, and throws when it was not. */
  tool<R>(name: string, run: (input: Input) => Promise<R> | R): (input: Input) => Promise<R> {
    return async (input) => {
      const call = crypto.randomUUID();
      const about = { session: this.#session, call };
      let answer: Answer;
      do {
        answer = await this.#ask("tool.call", { ...about, tool: name, input });
      } while (answer.outcome === "waiting");
      if (answer.outcome !== "allow") throw new Refused(answer.reason ?? `${name} is not allowed`);
      try {
        const result = await run(answer.input);
        await this.#ask("tool.result", { ...about, output: JSON.stringify(result) ?? "" });
        return result;
      } catch (error) {
        if (!(error instanceof Refused)) {
          await this.#ask("tool.result", { ...about, output: String(error), is_error: true });
        }
        throw error;
      }
    };
  }

  async close(): Promise<void> {
    await this.#ask("session.close", { session: this.#session });
    (await this.#socket)?.close();
  }

  /** Ask, and ask again on a new connection when one is lost: ids make that harmless. */
  async #ask(method: string, params: Input): Promise<any> {
    for (let pause = 100; ; pause = Math.min(pause * 2, 5000)) {
      try {
        return await this.#request(await this.#connected(), method, params);
      } catch (error) {
        if (!(error instanceof Lost)) throw error;
        await new Promise((again) => setTimeout(again, pause));
      }
    }
  }

  #connected(): Promise<WebSocket> {
    if (this.#socket === null) {
      this.#socket = this.#connect();
      this.#socket.catch(() => (this.#socket = null));
    }
    return this.#socket;
  }

  /** Anybody can listen where no server does, so whoever listens proves that it knows the token. */
  async #prove(): Promise<void> {
    const { protocol, host } = new URL(this.#url);
    if (protocol !== "ws:") return;
    const bytes = (text: string) => new TextEncoder().encode(text);
    const hex = (data: ArrayBuffer) =>
      [...new Uint8Array(data)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    const digest = await crypto.subtle.digest("SHA-256", bytes(this.#token));
    const hmac = { name: "HMAC", hash: "SHA-256" };
    const key = await crypto.subtle.importKey("raw", digest, hmac, false, ["sign"]);
    const made = async (what: string) =>
      hex(await crypto.subtle.sign("HMAC", key, bytes(`interlock ${what}`)));
    const nonce = hex(crypto.getRandomValues(new Uint8Array(32)).buffer);
    const headers = { "Interlock-Token": (await made("name")).slice(0, 32), "Interlock-Nonce": nonce };
    const answer = await fetch(`http://${host}/proof`, { headers }).catch(() => {
      throw new Lost("no connection");
    });
    if ((await answer.text()).trim() !== (await made(`proof ${host} ${nonce}`))) {
      throw new Refused("what listens there does not know this token, which was not sent");
    }
  }

  async #connect(): Promise<WebSocket> {
    await this.#prove();
    // A WebSocket cannot set headers, so the token comes as a second subprotocol.
    const socket = new WebSocket(`${this.#url}/agent`, ["interlock.v1", `bearer.${this.#token}`]);
    const waiting = (this.#waiting = new Map());
    socket.onmessage = (event) => {
      const { id, result, error } = JSON.parse(event.data);
      const asked = waiting.get(id);
      waiting.delete(id);
      if (error) asked?.reject(new Refused(error.message));
      else asked?.resolve(result);
    };
    await new Promise<void>((open, fail) => {
      socket.onopen = () => open();
      socket.onclose = () => {
        this.#socket = null;
        fail(new Lost("no connection"));
        for (const asked of waiting.values()) asked.reject(new Lost("the connection was lost"));
      };
    });
    await this.#request(socket, "hello", { versions: [1], client: "docs/examples/agent.ts" });
    await this.#find(socket);
    return socket;
  }

  /** The session, new or as it was left. */
  async #find(socket: WebSocket): Promise<void> {
    const session = this.#session;
    try {
      await this.#request(socket, "session.open", { agent: this.#agent, session });
    } catch (error) {
      if (error instanceof Lost) throw error;
      await this.#request(socket, "session.resume", { session });
    }
  }

  #request(socket: WebSocket, method: string, params: Input): Promise<any> {
    const id = ++this.#number;
    return new Promise((resolve, reject) => {
      if (socket.readyState !== WebSocket.OPEN) return reject(new Lost("no connection"));
      this.#waiting.set(id, { resolve, reject });
      socket.send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    });
  }
}

async function main(): Promise<void> {
  const url = process.env.INTERLOCK_URL ?? "ws://127.0.0.1:8737";
  const token = process.env.INTERLOCK_TOKEN;
  if (token === undefined) throw new Error("INTERLOCK_TOKEN: see `interlock token new agent NAME`");

  const gate = new Gate(url, token, "example");
  const test = gate.tool("test", () => "12 passed");
  const deploy = gate.tool("deploy", ({ to }) => `deployed to ${to}`);
  const wanted = process.argv.slice(2);

  for (const [name, tool, input] of [
    ["test", test, {}],
    ["deploy", deploy, { to: "staging" }],
  ] as const) {
    if (wanted.length > 0 && !wanted.includes(name)) continue;
    try {
      console.log(`${name}: ${await tool(input)}`);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      console.log(`${name}: blocked: ${error.message}`);
      process.exitCode = 1;
    }
  }
  await gate.close();
}

main().catch((error) => {
  console.error(String(error));
  process.exitCode = 1;
});
