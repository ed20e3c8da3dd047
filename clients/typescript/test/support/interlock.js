/** A real `interlock serve`, an operator's console, and a network in between that can be cut. */

import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect as dial, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { connect } from "@interlock/client";
import { Link } from "../../dist/link.js";

export const RULES = `
require test before deploy
require human-approval before deploy
require human-approval before refund
require human-approval before plan
block rm
`;

/** A server with its own directory of files, which a restart reuses. */
export class Server {
  url = "";
  #process = null;

  constructor({ rules = RULES, hosts = [], tls = null } = {}) {
    this.directory = mkdtempSync(join(tmpdir(), "interlock-client-"));
    this.config = join(this.directory, "config");
    mkdirSync(this.config, { mode: 0o700 });
    writeFileSync(join(this.directory, "test.rules"), rules);
    writeFileSync(join(this.config, "interlock.toml"), `[gateway]\nhosts = ${JSON.stringify(hosts)}\n`);
    this.tls = tls;
  }

  async start(listen = "127.0.0.1:0") {
    const words = ["serve", "--rules", "test.rules", "--db", "run.db", "--listen", this.listen ?? listen];
    if (this.tls !== null) words.push("--certificate", this.tls.certificate, "--key", this.tls.key);
    const environment = { ...process.env, INTERLOCK_CONFIG_DIR: this.config, HOME: this.directory };
    for (const name of ["INTERLOCK_URL", "INTERLOCK_TOKEN", "INTERLOCK_CA"]) delete environment[name];
    const running = spawn(process.env.INTERLOCK ?? "interlock", words, {
      cwd: this.directory,
      env: environment,
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#process = running;
    process.once("exit", () => running.kill("SIGKILL"));
    let problems = "";
    running.once("error", (error) => (problems += error.message));
    this.ended = new Promise((resolve) => running.once("close", resolve));
    running.stderr.on("data", (data) => (problems += data));
    for await (const line of createInterface({ input: running.stdout })) {
      const found = /^Listening on (\S+)/.exec(line);
      if (found === null) continue;
      this.listen = found[1];
      const scheme = this.tls === null ? "ws" : "wss";
      this.url = found[1].startsWith("unix:") ? found[1] : `${scheme}://${found[1]}`;
      this.token = readFileSync(join(this.config, "agent.token"), "utf8").trim();
      return this;
    }
    await this.ended;
    throw new Error(`the server did not start: ${problems}`);
  }

  async stop(signal = "SIGINT") {
    this.#process?.kill(signal);
    await this.ended;
  }

  client(options = {}) {
    return connect(options.url ?? this.url, { token: this.token, patience: 30, ...options });
  }

  async operator() {
    const token = readFileSync(join(this.config, "operator.token"), "utf8").trim();
    const operator = new Operator(this.url, token, this.tls?.certificate);
    await operator.link.open(10);
    return operator;
  }

  remove() {
    rmSync(this.directory, { recursive: true, force: true });
  }
}

/** A console that answers requests. */
export class Operator {
  constructor(url, token, ca) {
    const terms = { url, token, ca, path: "/console", name: "test", notice: () => undefined };
    this.link = new Link({ ...terms, connected: async () => undefined });
  }

  /** Wait until this number of requests are open, and return them. */
  waiting(count = 1) {
    return until(async () => {
      const { first } = await this.link.exchange("approvals.list", {});
      return first.length >= count ? first : null;
    });
  }

  /** Wait until no request is open. */
  nothingWaits() {
    return until(async () => (await this.link.exchange("approvals.list", {})).first.length === 0);
  }

  async decide(request, approved, more = {}) {
    const { digest } = request;
    return this.link.exchange("approval.decide", { approval_id: request.id, digest, approved, ...more });
  }

  async decideNext(approved, more = {}) {
    const [request] = await this.waiting();
    return this.decide(request, approved, more);
  }

  /** Return the recorded calls of a session, by id. */
  async calls(session) {
    return (await this.link.exchange("session.state", { session })).calls;
  }

  close() {
    this.link.close();
  }
}

/** A network that forwards bytes to a server, and can be cut. */
export class Network {
  target = "";
  #streams = new Set();
  #server = createServer((stream) => this.#pass(stream));

  async open() {
    await new Promise((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    this.name = `127.0.0.1:${this.#server.address().port}`;
    this.url = `ws://${this.name}`;
    return this;
  }

  cut() {
    for (const stream of this.#streams) stream.destroy();
  }

  close() {
    this.cut();
    this.#server.close();
  }

  #pass(stream) {
    const { hostname, port } = new URL(this.target);
    const there = dial({ host: hostname, port });
    for (const [one, other] of [[stream, there], [there, stream]]) {
      this.#streams.add(one);
      one.pipe(other);
      one.on("error", () => other.destroy());
      one.on("close", () => {
        this.#streams.delete(one);
        other.destroy();
      });
    }
  }
}

/** Wait until `found` returns a value, and return it. */
export async function until(found) {
  for (let tries = 0; tries < 3000; tries++) {
    const value = await found();
    if (value) return value;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error("it did not happen");
}
