/** A client's connection: requests and responses, and reconnecting after a loss. */

import { readFileSync } from "node:fs";

import { addresses, tokenReader, type Address } from "./address.ts";
import { GatewayError, InexactNumberError, NotAdmittedError, RequestFailedError, UnreachableError } from "./errors.ts";
import { readJson } from "./json.ts";
import { ModelError, readModel } from "./models.ts";
import { Code, NOTICES, RESULTS, VERSION, type JsonObject, type Methods, type Welcome } from "./protocol.ts";
import { dial, GREETING, type Socket } from "./socket.ts";

const FIRST_PAUSE = 100;
const LONGEST_PAUSE = 5_000;
/** Codes of temporary refusals, which do not mean that the client is not admitted. */
const PASSING: readonly number[] = [Code.INTERNAL, Code.UNRECORDED, Code.LIMIT];

/** Terms of a link; see `ConnectOptions`. */
export interface LinkTerms {
  readonly url: string | undefined;
  readonly token: string | undefined;
  readonly path: "/agent" | "/console";
  readonly name: string;
  readonly ca: string | undefined;
  /** Send, with `ask`, the requests that have to precede others. */
  connected(): Promise<void>;
  notice(method: string, params: unknown): void;
}

/** Terms of one request. With `mayRepeat` it is sent again after a loss; `patience` is in seconds. */
export interface RequestTerms {
  readonly mayRepeat?: boolean;
  readonly patience?: number;
  readonly signal?: AbortSignal | undefined;
}

interface Pending {
  resolve(result: unknown): void;
  reject(error: Error): void;
}

interface Connection {
  readonly socket: Socket;
  readonly pending: Map<number, Pending>;
}

/**
 * One client's connection to a server. With several addresses, of servers that share a database, the next
 * address is tried whenever a server cannot be reached, or reports that it is temporarily unavailable.
 */
export class Link {
  welcome: Welcome | null = null;
  readonly #terms: LinkTerms;
  readonly #addresses: Address[];
  readonly #readToken: () => string;
  readonly #ca: string | undefined;
  #token: string;
  #connection: Connection | null = null;
  #isReady = false;
  #connecting: Promise<unknown> = Promise.resolve();
  #number = 0;
  #closed = false;

  constructor(terms: LinkTerms) {
    this.#terms = terms;
    this.#addresses = addresses(terms.url);
    this.#readToken = tokenReader(terms.token);
    this.#token = this.#readToken();
    const ca = terms.ca ?? process.env["INTERLOCK_CA"];
    this.#ca = ca ? certificates(ca) : undefined;
  }

  /** URL of the present connection, or of the next attempt. */
  get url(): string {
    return this.#addresses[0]!.url;
  }

  /** Connect, with attempts during `patience` seconds. Throws the errors of `request`. */
  async open(patience = 0): Promise<Welcome> {
    // Concurrent callers each wait for their own time.
    const until = Date.now() + patience * 1000;
    const turn = this.#connecting.then(async () => {
      if (!this.#isReady) await this.#connectPatiently(until);
    });
    this.#connecting = turn.catch(() => undefined);
    await turn;
    return this.welcome!;
  }

  /** Close the connection; requests without an answer throw `UnreachableError`. */
  close(): void {
    this.#closed = true;
    this.#connection?.socket.close();
    this.#lose(this.#connection, "was closed");
  }

  /**
   * Send a request; return the answer.
   *
   * Throws `RequestFailedError`, `UnreachableError`, `NotAdmittedError`, and an aborted `signal`'s reason.
   */
  async request<M extends keyof Methods>(
    method: M,
    params: Methods[M]["params"],
    terms: RequestTerms = {},
  ): Promise<Methods[M]["result"]> {
    for (let pause = 0; ; pause = Math.min(LONGEST_PAUSE, Math.max(FIRST_PAUSE, pause * 2))) {
      await this.open(terms.patience);
      terms.signal?.throwIfAborted();
      try {
        return await this.ask(method, params);
      } catch (error) {
        if (!(error instanceof UnreachableError) || !terms.mayRepeat || this.#closed) throw error;
      }
      // The first retry is immediate; back off from a server that accepts connections and drops them.
      await sleep(pause);
      terms.signal?.throwIfAborted();
    }
  }

  /** Send a request on the open connection. Throws `RequestFailedError` and `UnreachableError`. */
  async ask<M extends keyof Methods>(
    method: M,
    params: Methods[M]["params"],
  ): Promise<Methods[M]["result"]> {
    const result = await this.exchange(method, params);
    return modelled(RESULTS[method], result, method) as Methods[M]["result"];
  }

  /** Send a request of any method; return its result unchecked. */
  exchange(method: string, params: object): Promise<unknown> {
    const connection = this.#connection;
    if (connection === null || !connection.socket.isOpen) {
      return Promise.reject(new UnreachableError(`There is no connection to ${this.url}`));
    }
    const id = ++this.#number;
    const frame = JSON.stringify({ jsonrpc: "2.0", id, method, params });
    const size = Buffer.byteLength(frame);
    if (this.welcome !== null && size > this.welcome.frame) {
      const said = `${method}: ${size} bytes, and the server accepts ${this.welcome.frame} at most`;
      return Promise.reject(new RequestFailedError(Code.LIMIT, said));
    }
    return new Promise((resolve, reject) => {
      connection.pending.set(id, { resolve, reject });
      connection.socket.send(frame);
    });
  }

  // Connecting

  async #connectPatiently(until: number): Promise<void> {
    let pause = FIRST_PAUSE;
    let others = this.#addresses.length - 1;
    for (;;) {
      try {
        return await this.#connect();
      } catch (error) {
        if (error instanceof UnreachableError) {
          this.#addresses.push(this.#addresses.shift()!);
          if (!this.#closed && --others >= 0) continue;
          others = this.#addresses.length - 1;
          if (this.#closed || Date.now() + pause > until) throw error;
        } else {
          // A client admitted before may be admitted again: another program may be listening there for now.
          pause = LONGEST_PAUSE;
          const mayPass = error instanceof NotAdmittedError && this.welcome !== null;
          if (!mayPass || this.#closed || Date.now() + pause > until) throw error;
        }
      }
      await sleep(pause);
      pause = Math.min(LONGEST_PAUSE, pause * 2);
    }
  }

  async #connect(): Promise<void> {
    if (this.#closed) throw new UnreachableError(`The connection to ${this.url} was closed`);
    this.#renewToken();
    const socket = await dial({
      address: this.#addresses[0]!,
      path: this.#terms.path,
      token: this.#token,
      ca: this.#ca,
    });
    const connection: Connection = { socket, pending: new Map() };
    this.#connection = connection;
    socket.listen({
      message: (text) => this.#receive(connection, text),
      end: () => this.#lose(connection, "was lost"),
    });
    const late = setTimeout(() => socket.abort(), GREETING);
    try {
      const greeting = await this.ask("hello", { versions: [VERSION], client: this.#terms.name });
      clearTimeout(late);
      if (greeting.version !== VERSION) {
        throw new GatewayError(`it speaks version ${greeting.version} of the protocol, expected ${VERSION}`);
      }
      this.welcome = greeting;
      await this.#terms.connected();
      if (this.#closed || this.#connection !== connection) {
        throw new UnreachableError(`The connection to ${this.url} was closed`);
      }
      this.#isReady = true;
    } catch (error) {
      socket.close();
      this.#lose(connection, "was lost");
      if (error instanceof UnreachableError) throw error;
      const passing = error instanceof RequestFailedError && PASSING.includes(error.code);
      const said = `${this.url}: ${error instanceof Error ? error.message : String(error)}`;
      throw new (passing ? UnreachableError : NotAdmittedError)(said, { cause: error });
    } finally {
      clearTimeout(late);
    }
  }

  #renewToken(): void {
    try {
      this.#token = this.#readToken();
    } catch {
      // The file may be in the course of being replaced; the previous token may still be valid.
    }
  }

  #lose(connection: Connection | null, how: string): void {
    if (connection === null) return;
    if (this.#connection === connection) {
      this.#connection = null;
      this.#isReady = false;
    }
    const error = new UnreachableError(`The connection to ${this.url} ${how}`);
    for (const each of connection.pending.values()) each.reject(error);
    connection.pending.clear();
  }

  #receive(connection: Connection, text: string): void {
    const { value, inexact } = readJson(text);
    if (typeof value !== "object" || value === null) throw new GatewayError("the server sent an invalid message");
    const message = value as { id?: unknown; method?: unknown; params?: unknown; result?: unknown; error?: unknown };
    if (typeof message.method === "string") return this.#tell(message.method, message.params);
    const error = message.error === undefined || message.error === null ? null : failure(message.error);
    if (typeof message.id !== "number") {
      // The server could not parse a request, and so cannot identify it: all open requests fail.
      for (const each of connection.pending.values()) each.reject(error ?? new GatewayError("no message"));
      return connection.pending.clear();
    }
    const asked = connection.pending.get(message.id);
    connection.pending.delete(message.id);
    if (error !== null) asked?.reject(error);
    else if (inexact !== null) {
      asked?.reject(
        new InexactNumberError(`The answer has the number ${inexact.slice(0, 40)}, which JavaScript would change`),
      );
    } else asked?.resolve(message.result);
  }

  #tell(method: string, params: unknown): void {
    const name = Object.hasOwn(NOTICES, method) ? NOTICES[method] : undefined;
    if (name !== undefined) this.#terms.notice(method, modelled(name, params, method));
  }
}

function failure(error: unknown): RequestFailedError {
  const { code, message, data } = error as { code?: unknown; message?: unknown; data?: unknown };
  return new RequestFailedError(
    typeof code === "number" ? code : Code.INTERNAL,
    typeof message === "string" ? message : "the server gave no reason",
    typeof data === "object" && data !== null ? (data as JsonObject) : {},
  );
}

function modelled(name: string, value: unknown, method: string): unknown {
  try {
    return readModel(name, value);
  } catch (error) {
    if (!(error instanceof ModelError)) throw error;
    throw new GatewayError(`${method}: an invalid answer: ${error.message}`, { cause: error });
  }
}

function certificates(path: string): string {
  const text = readFileSync(path, "utf8");
  if (text.includes("-----BEGIN CERTIFICATE-----")) return text;
  throw new TypeError(`${path}: expected certificates to trust, in PEM`);
}

function sleep(most: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, most * (0.5 + Math.random() / 2)));
}
