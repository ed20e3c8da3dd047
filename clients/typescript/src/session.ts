/** A session on the server: it requests decisions, runs tools behind the gate, and reports results. */

import { createHash, randomUUID } from "node:crypto";

import type { AgentClient } from "./client.ts";
import { Blocked, GatewayError, InexactNumberError, RequestFailedError } from "./errors.ts";
import { asJsonObject, canonical } from "./json.ts";
import { Code, type CallAnswer, type ExplanationView, type JsonObject, type SessionOpen } from "./protocol.ts";
import {
  editNotice,
  failureText,
  isFailure,
  resultText,
  returnedFailure,
  shortened,
  type ResultClassifier,
} from "./results.ts";

/** Bytes of a message in addition to the text it carries. */
const OVERHEAD = 8192;
const PLAN_NOTED = "The plan is noted. Make its calls one by one.";
const CUT_OFF = "Outcome unknown: the call was cancelled while its tool ran";
const RUNS_ALREADY = "a call with its id was allowed once, and has already run or is still running";

type Told = Omit<CallAnswer, "outcome" | "input" | "reason">;

/** The call may run, with exactly `input`; `notice` informs the model of an operator's edit. */
export interface Allow extends Told {
  outcome: "allow";
  input: JsonObject;
  reason: string | null;
  notice: string | null;
}

/** The call must not run; `reason` is for the model. */
export interface Block extends Told {
  outcome: "block";
  reason: string;
}

/** No operator has decided yet: ask about the same call again, under the same id. */
export interface Waiting extends Told {
  outcome: "waiting";
  reason: string;
}

export type Answer = Allow | Block | Waiting;

/** Options of one call. */
export interface CallOptions {
  /** Id of the call: the same id refers to the same approval request. By default a new id. */
  callId?: string;
  /** Seconds after which the answer is `waiting` if no operator has decided; by default, no limit. */
  wait?: number;
  /** Withdraws the call when it is aborted. */
  signal?: AbortSignal;
  /** The agent's subagent that makes the call. */
  subagent?: string;
  /** Span of the call, in the format of W3C Trace Context. */
  traceparent?: string;
}

/** Outcome of a call. With `unknown` its tool was cut off, and may or may not have run. */
export interface ResultOptions {
  isError?: boolean;
  unknown?: boolean;
  seconds?: number;
}

/** A step of a plan: at most `count` calls of a tool whose input meets the condition `when`. */
export interface PlanStep {
  tool: string;
  count?: number;
  when?: string;
  effects?: string[];
}

/** Second argument of a gated function, after its input. */
export interface Run {
  callId: string;
  signal: AbortSignal | undefined;
}

/** Options of a gated function. */
export interface GateOptions<I, R> {
  /** Parses the approved input, which an operator may have edited; if it throws, the call does not run. */
  parse?: (input: JsonObject) => I;
  /** Returns whether a result is a failure; replaces the session's `isError`. */
  isError?: ResultClassifier;
  /** Adds the notice of an operator's edit to a result. By default it is appended to a text. */
  tell?: (result: R, notice: string) => R;
}

/** An allowed call, and the function that reports its outcome. */
interface Allowed {
  readonly tool: string;
  readonly callId: string;
  readonly answer: Allow;
  readonly signal: AbortSignal | undefined;
  report(output: string, end: ResultOptions): Promise<void>;
}

/** A function behind the gate: it throws `Blocked` if its call is not allowed. */
export type Gated<I, R> = (
  input: I,
  options?: Pick<CallOptions, "callId" | "signal" | "subagent" | "traceparent">,
) => Promise<R>;

/** A session; see `AgentClient.openSession`. */
export class AgentSession {
  readonly id: string;
  readonly mode: "enforce" | "shadow";
  readonly rules: readonly string[];
  /** Reason why the session has ended; `null` while it is open. */
  ended: string | null = null;
  readonly #client: AgentClient;
  readonly #isError: ResultClassifier;
  /** Ids of calls that were requested and have no recorded outcome: none of them runs a second time. */
  readonly #open = new Set<string>();

  /** @internal */
  constructor(client: AgentClient, found: SessionOpen, rules: string[], isError: ResultClassifier | undefined) {
    this.#client = client;
    this.id = found.session;
    this.mode = found.mode;
    this.rules = rules;
    this.#isError = isError ?? returnedFailure;
  }

  /**
   * Request a decision on a tool call; waits for an operator if the rules require approval.
   *
   * After a loss the connection is reopened, and the request repeated under the same id. The tool may run
   * only after `allow`, with the `input` of the answer. Throws `GatewayError`, `TypeError` for an input that
   * is not JSON, and the reason of an aborted `signal`.
   */
  async call(tool: string, input: object, options: CallOptions = {}): Promise<Answer> {
    const { callId = randomUUID(), wait, signal, subagent, traceparent } = options;
    const given = asJsonObject(input, `the input of ${tool}`);
    const params = {
      session: this.id,
      call: callId,
      tool,
      input: given,
      ...(wait === undefined ? {} : { wait }),
      ...(subagent === undefined ? {} : { subagent }),
      ...(traceparent !== undefined && this.#client.link.welcome?.traces ? { traceparent } : {}),
    };
    this.#check();
    signal?.throwIfAborted();
    const asked = this.#ask(params, given, wait !== undefined, signal);
    if (signal === undefined) return asked;
    // An abandoned call may still be answered; the answer is ignored.
    asked.catch(() => undefined);
    let abort = (): void => undefined;
    const aborted = new Promise<never>((_, reject) => {
      abort = () => reject(signal.reason);
      signal.addEventListener("abort", abort);
    });
    try {
      return await Promise.race([asked, aborted]);
    } catch (error) {
      if (signal.aborted) await this.withdraw(callId).catch(ignoreGateway);
      throw error;
    } finally {
      signal.removeEventListener("abort", abort);
    }
  }

  async #ask(
    params: { session: string; call: string; tool: string; input: JsonObject },
    given: JsonObject,
    mayWait: boolean,
    signal: AbortSignal | undefined,
  ): Promise<Answer> {
    const terms = { mayRepeat: true, patience: this.#client.patience, signal };
    try {
      for (;;) {
        const answer = await this.#client.link.request("tool.call", params, terms);
        // The server limits the wait; repeating the request continues it.
        if (answer.outcome !== "waiting" || mayWait) return read(answer, params.tool, given);
      }
    } catch (error) {
      if (error instanceof InexactNumberError) {
        const said = `${params.tool} was not run: ${error.message}`;
        await this.result(params.call, said, { isError: true }).catch(ignoreGateway);
      }
      // The session could not be resumed after a loss: that reason is more useful than `not open`.
      if (error instanceof RequestFailedError && error.code === Code.UNKNOWN) this.#check();
      throw error;
    }
  }

  /**
   * Show an operator the planned calls: `call` with the tool `plan`.
   *
   * With the outcome `allow` the `reason` says what the plan permits; each call still needs its decision.
   */
  async plan(title: string, steps: readonly PlanStep[], options: CallOptions = {}): Promise<Answer> {
    const callId = options.callId ?? randomUUID();
    const answer = await this.call("plan", { title, steps }, { ...options, callId });
    if (answer.outcome === "allow") await this.result(callId, answer.reason ?? PLAN_NOTED);
    return answer;
  }

  /** Withdraw a call that waits. Throws `GatewayError`. */
  async withdraw(callId: string, reason = ""): Promise<void> {
    await this.#client.link.request(
      "tool.withdraw",
      { session: this.id, call: callId, reason },
      { mayRepeat: true },
    );
  }

  /**
   * Stop waiting for a call that was answered with `waiting`, without withdrawing it.
   *
   * Returns the time until which its approval request stays open: the same tool with the same input, called
   * again under any id, then gets the answer. Returns `null` if the call is withdrawn. Throws `GatewayError`.
   */
  async giveUp(callId: string, reason = ""): Promise<Date | null> {
    const params = { session: this.id, call: callId, reason };
    const { until } = await this.#client.link.request("tool.give_up", params, { mayRepeat: true });
    return until === null ? null : new Date(until);
  }

  /**
   * Report the result of an allowed call. Throws `GatewayError`.
   *
   * An output larger than the server's limit is shortened to its beginning, with a note.
   */
  async result(callId: string, output: string, options: ResultOptions = {}): Promise<void> {
    const { isError = false, unknown = false, seconds } = options;
    const most = (this.#client.link.welcome?.frame ?? 1 << 20) - OVERHEAD;
    const params = {
      session: this.id,
      call: callId,
      output: shortened(output, most),
      is_error: isError || unknown,
      ...(unknown ? { unknown } : {}),
      ...(seconds === undefined ? {} : { seconds }),
    };
    await this.#client.link.request("tool.result", params, this.#repeated());
  }

  /** End the agent's turn: allowed calls without a result are recorded with an unknown outcome. */
  async endTurn(): Promise<void> {
    await this.#client.link.request("session.end_turn", { session: this.id }, this.#repeated());
  }

  /** Record a message of the conversation, for the operators. */
  async reportMessage(role: "user" | "assistant", text: string): Promise<void> {
    await this.#client.link.request("session.report_message", { session: this.id, role, text });
  }

  /** Describe what the rules allow the model now, as text for its system prompt. */
  async prompt(): Promise<string> {
    return (await this.#client.link.request("session.prompt", { session: this.id })).text;
  }

  /** Explain the decision on a call without making it. */
  async explain(tool: string, input: object): Promise<ExplanationView> {
    const params = { session: this.id, tool, input: asJsonObject(input, `the input of ${tool}`) };
    return this.#client.link.request("tool.explain", params, { mayRepeat: true });
  }

  /** End the session. */
  async close(): Promise<void> {
    this.#client.forget(this.id);
    if (this.ended !== null) return;
    this.ended = "it was closed";
    await this.#client.link.request("session.close", { session: this.id }, { mayRepeat: true });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close().catch(ignoreGateway);
  }

  /**
   * Gate a function: it runs with the approved input, or its call throws `Blocked`.
   *
   * Exceptions, and results that `isError` classifies as failures, are reported as failed; exceptions after
   * its `signal` was aborted are reported as unknown. The result is returned once it has been reported.
   */
  gate<I extends object, R>(
    tool: string,
    run: (input: I, call: Run) => R | Promise<R>,
    options: GateOptions<I, R> = {},
  ): Gated<I, R> {
    return async (input, { callId = randomUUID(), ...terms } = {}) => {
      if (this.#open.has(callId)) throw new Blocked(tool, callId, RUNS_ALREADY);
      this.#open.add(callId);
      let id: string, answer: Answer;
      try {
        [id, answer] = await this.#decide(tool, input, callId, terms);
        if (answer.outcome !== "allow") throw new Blocked(tool, callId, answer.reason);
      } catch (error) {
        this.#open.delete(callId);
        throw error;
      }
      const report = async (output: string, end: ResultOptions): Promise<void> => {
        await this.result(id, output, end);
        this.#open.delete(callId);
      };
      return this.#run({ tool, callId: id, answer, signal: terms.signal, report }, run, options);
    };
  }

  async #decide(
    tool: string,
    input: object,
    callId: string,
    terms: Omit<CallOptions, "callId">,
  ): Promise<[string, Answer]> {
    try {
      return [callId, await this.call(tool, input, { ...terms, callId })];
    } catch (error) {
      if (!(error instanceof RequestFailedError) || error.code !== Code.CALL_ID_USED) throw error;
    }
    // The model has used this id for another call before.
    const about = canonical([tool, asJsonObject(input, `the input of ${tool}`)]);
    const digest = createHash("sha256").update(about).digest("hex").slice(0, 12);
    const renamed = `${callId.slice(0, 150)}.${digest}`;
    return [renamed, await this.call(tool, input, { ...terms, callId: renamed })];
  }

  async #run<I extends object, R>(
    { tool, callId, answer, signal, report }: Allowed,
    run: (input: I, call: Run) => R | Promise<R>,
    options: GateOptions<I, R>,
  ): Promise<R> {
    const began = performance.now();
    const seconds = (): number => (performance.now() - began) / 1000;
    let value: R;
    let hasBegun = false;
    try {
      signal?.throwIfAborted();
      const input = options.parse === undefined ? (answer.input as I) : options.parse(answer.input);
      hasBegun = true;
      value = await run(input, { callId, signal });
    } catch (error) {
      const unknown = hasBegun && signal?.aborted === true;
      const text = unknown ? CUT_OFF : failureText(error);
      try {
        await report(text, { isError: true, unknown, seconds: seconds() });
      } catch (problem) {
        if (problem instanceof GatewayError) problem.cause ??= error;
        throw problem;
      }
      throw error;
    }
    const isError = isFailure(options.isError ?? this.#isError, tool, value);
    await report(resultText(value), { isError, seconds: seconds() });
    if (answer.notice === null) return value;
    if (options.tell !== undefined) return options.tell(value, answer.notice);
    return (typeof value === "string" ? `${value}\n\n${answer.notice}` : value) as R;
  }

  #repeated(): { mayRepeat: true; patience: number } {
    return { mayRepeat: true, patience: this.#client.patience };
  }

  #check(): void {
    if (this.ended === null) return;
    throw new RequestFailedError(Code.UNKNOWN, `Session '${this.id}' has ended: ${this.ended}`);
  }
}

function read(answer: CallAnswer, tool: string, given: JsonObject): Answer {
  const { outcome, input, reason, ...told } = answer;
  switch (outcome) {
    case "allow": {
      if (input === undefined) throw new GatewayError("tool.call: it is allowed without an input");
      const notice = told.edited ? editNotice(given, input) : null;
      return { ...told, outcome, input, reason, notice };
    }
    case "block":
      return { ...told, outcome, reason: reason ?? `${tool} is not allowed` };
    case "waiting":
      return { ...told, outcome, reason: reason ?? "it waits for an operator" };
  }
}

function ignoreGateway(error: unknown): void {
  if (!(error instanceof GatewayError)) throw error;
}
