/** The connection of an agent's program, and its sessions, which are resumed after a loss. */

import { randomUUID } from "node:crypto";

import { RequestFailedError, UnreachableError } from "./errors.ts";
import { Link } from "./link.ts";
import { Code, type OpenSession, type SessionEnded, type SessionOpen } from "./protocol.ts";
import type { ResultClassifier } from "./results.ts";
import { AgentSession } from "./session.ts";

/** Seconds during which a client tries to reach its server before a call fails. */
const PATIENCE = 60;

/** Options of a connection. */
export interface ConnectOptions {
  /** The agent's token: INTERLOCK_TOKEN by default, else the one that `interlock serve` wrote for this user. */
  token?: string;
  /** The program's name in the server's log. */
  name?: string;
  /** A file of certificates that `wss://` servers are checked against: INTERLOCK_CA, else those of Node. */
  ca?: string;
  /** Seconds to keep trying if no server is reached, 60 by default. */
  patience?: number;
}

/** Options of a new session, as in the protocol. `isError` returns whether a result is a tool's failure. */
export interface SessionOptions extends Omit<OpenSession, "agent"> {
  isError?: ResultClassifier;
}

/**
 * Connect to a server.
 *
 * `url` is INTERLOCK_URL by default, else `ws://127.0.0.1:8737`; several URLs, of servers that share a
 * database, are separated by commas. A token is sent to other machines over `wss://` only. Throws `TypeError`
 * for an invalid URL or a missing token, `UnreachableError` and `NotAdmittedError`.
 */
export async function connect(url?: string, options: ConnectOptions = {}): Promise<AgentClient> {
  const client = new AgentClient(url, options);
  await client.link.open(client.patience);
  return client;
}

/** A connection for agents; see `connect`. */
export class AgentClient {
  /** @internal */
  readonly link: Link;
  readonly patience: number;
  readonly #sessions = new Map<string, AgentSession>();

  /** @internal */
  constructor(url: string | undefined, options: ConnectOptions) {
    this.patience = options.patience ?? PATIENCE;
    this.link = new Link({
      url,
      token: options.token,
      path: "/agent",
      name: options.name ?? "",
      ca: options.ca,
      connected: () => this.#restore(),
      notice: (_, params) => this.#end(params as SessionEnded),
    });
  }

  /** Open a session; it stays open until it is closed. Throws `GatewayError`. */
  async openSession(agent: string, options: SessionOptions = {}): Promise<AgentSession> {
    const { isError, ...terms } = options;
    // The id is generated here, so that opening can be repeated after a loss.
    const session = terms.session ?? `${asId(agent)}-${randomUUID().replaceAll("-", "").slice(0, 12)}`;
    const given = { ...terms, agent, session };
    try {
      const found = await this.link.request("session.open", given, this.#repeated());
      return this.#keep(found, terms.rules ?? [], isError);
    } catch (error) {
      const isRefused = error instanceof RequestFailedError && error.code === Code.REFUSED;
      if (!isRefused || terms.session != null) throw error;
      // No other client uses this id: the server opened the session, and ended before it answered.
      return this.resumeSession(session, options);
    }
  }

  /** Resume a session that was opened with this token, under the `rules` that it was opened with. */
  async resumeSession(
    session: string,
    options: Pick<SessionOptions, "rules" | "isError"> = {},
  ): Promise<AgentSession> {
    const rules = options.rules ?? [];
    const found = await this.link.request("session.resume", { session, rules }, this.#repeated());
    return this.#keep(found, rules, options.isError);
  }

  /** Close the connection; sessions stay open on the server, and can be resumed. */
  async close(): Promise<void> {
    this.link.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** @internal Forget a closed session: it is not resumed after a loss. */
  forget(session: string): void {
    this.#sessions.delete(session);
  }

  #repeated(): { mayRepeat: true; patience: number } {
    return { mayRepeat: true, patience: this.patience };
  }

  #keep(found: SessionOpen, rules: string[], isError: ResultClassifier | undefined): AgentSession {
    const kept = new AgentSession(this, found, [...rules], isError);
    this.#sessions.set(kept.id, kept);
    return kept;
  }

  async #restore(): Promise<void> {
    for (const session of [...this.#sessions.values()]) {
      try {
        await this.link.ask("session.resume", { session: session.id, rules: [...session.rules] });
      } catch (error) {
        if (!(error instanceof RequestFailedError)) throw error;
        if (error.code === Code.UNRECORDED || error.code === Code.INTERNAL) {
          throw new UnreachableError(`The server cannot continue at the moment: ${error.message}`, { cause: error });
        }
        session.ended = error.message;
        this.forget(session.id);
      }
    }
  }

  #end({ session, reason }: SessionEnded): void {
    const ended = this.#sessions.get(session);
    if (ended !== undefined) ended.ended = reason;
    this.forget(session);
  }
}

function asId(agent: string): string {
  const plain = agent.replace(/[^A-Za-z0-9._-]+/g, "-").replace(/^-+|-+$/g, "");
  return plain.slice(0, 60) || "agent";
}
