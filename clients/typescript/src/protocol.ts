// Made by `python -m tests.support.typescript` from the protocol's schema.

export const VERSION = 1;

export const Code = {
  PARSE: -32700,
  REQUEST: -32600,
  METHOD: -32601,
  PARAMS: -32602,
  INTERNAL: -32603,
  REFUSED: -32000,
  UNKNOWN: -32001,
  NOT_ALLOWED: -32002,
  LIMIT: -32003,
  CALL_ID_USED: -32004,
  UNRECORDED: -32005,
  VERSION: -32006,
  NOT_FOUND: -32007,
} as const;

/** A value of JSON. A number is one that JavaScript holds exactly. */
export type JsonValue = null | boolean | number | string | JsonValue[] | JsonObject;

export type JsonObject = { [key: string]: JsonValue };

/**
 * A tool call that the agent wants to make.
 *
 * Asking again with the same `call` returns the same answer, or waits for the same approval request.
 * With `wait`, the answer comes after at most that many seconds, as `waiting` if there is no decision.
 * `subagent` is the agent's own id of its subagent that makes the call: no other subagent gets the
 * answer to a late call, see `GiveUp`. `traceparent` is the header of W3C Trace Context: on a server
 * that traces, the call's span becomes a child of that span. An invalid one is ignored. Older servers
 * refuse the field, so send it only if `Welcome.traces` is true.
 */
export interface CallTool {
  session: string;
  call: string;
  tool: string;
  input: JsonObject;
  wait?: number | null;
  subagent?: string;
  traceparent?: string | null;
}

/** A call to explain without making it. */
export interface ExplainCall {
  session: string;
  tool: string;
  input?: JsonObject;
}

/**
 * Stop waiting for the answer to a call, without withdrawing the call.
 *
 * An open approval request of the call stays open for a while, if the server is configured so. The same
 * tool called again with the same input during that time, under any `call`, gets the answer once, in the
 * same session and from the same `subagent`. Giving up again does not extend the time. In all other
 * cases the call is withdrawn for the `reason`.
 */
export interface GiveUp {
  session: string;
  call: string;
  reason?: string;
}

/**
 * First message of a client, with its protocol versions. `client` is for the server's log.
 *
 * A `read_only` console is refused every method that needs more than a token of kind `look`.
 */
export interface Hello {
  versions: number[];
  client?: string;
  read_only?: boolean;
}

/**
 * Open a session.
 *
 * The server's own rules always apply; `rules` names rule sets of its configuration to add. `mode` can
 * be stricter than the server's; it can be `shadow` only if the server allows it. `active` are the nets
 * of the added rules that start active, by default all. With `session` the client chooses the id;
 * opening it again with the same token returns the live session. `labels` are display names of tools.
 * `shell` is the shell that runs the commands in calls: without it, commands that bash, dash and zsh
 * parse differently are unclear.
 */
export interface OpenSession {
  agent: string;
  session?: string | null;
  model?: string;
  rules?: string[];
  mode?: "enforce" | "shadow" | null;
  active?: string[] | null;
  tools?: string[];
  labels?: Record<string, string>;
  workdir?: string | null;
  shell?: "bash" | "sh" | "zsh" | null;
  explain_blocks?: boolean;
}

/**
 * A message of the conversation, shown to operators.
 *
 * A `user` message is recorded and shown as reported by the agent's token, because nothing proves that a
 * person wrote it.
 */
export interface ReportMessage {
  session: string;
  role: "user" | "assistant";
  text: string;
}

/**
 * Resume a session that was opened with this token, with the markings of its nets.
 *
 * A live session is returned as it is; an ended one is resumed from its record, with the same `rules` as
 * before.
 */
export interface ResumeSession {
  session: string;
  rules?: string[];
}

/** Id of a session. */
export interface SessionParams {
  session: string;
}

/**
 * Claims that an MCP server makes about a tool in the tool's annotations; nobody verifies them.
 *
 * Hints that the MCP server does not give are left out. Conditions such as `hint.read_only = true` use
 * the claims in the session's later calls of the tool. Send them before the first of these calls, and
 * again on each new connection. A claim that differs from an earlier one of the session no longer
 * counts. No claim counts after a call of the tool arrived on a connection without claims. Older servers
 * support neither this method nor rules that use hints.
 */
export interface ToolClaims {
  session: string;
  tool: string;
  hints: Record<string, boolean>;
}

/**
 * Result of an allowed call; `output` is what the model reads. Repeating it changes nothing.
 *
 * `unknown` means that the tool may or may not have run, for example if it was interrupted. The nets
 * count it as an error; a result that arrives later is recorded.
 */
export interface ToolResult {
  session: string;
  call: string;
  output?: string;
  is_error?: boolean;
  seconds?: number | null;
  unknown?: boolean;
}

/** Withdraw a pending call and remove its approval request from the queue. */
export interface WithdrawCall {
  session: string;
  call: string;
  reason?: string;
}

/**
 * Decision on a call: `allow` to run it with exactly `input`, or `block` it for `reason`.
 *
 * `waiting` means that the call needs approval and no operator has decided yet, or that all agents are
 * frozen, as `reason` then says: request the decision again later. `approved` says that the operators in
 * `approved_by` approved this very call, not the rules or a grant. `edited` says that an operator
 * changed the input, and `repeated` that the answer was given before. In shadow mode everything is
 * allowed, and `would` is the decision of enforce mode.
 */
export interface CallAnswer {
  outcome: "allow" | "block" | "waiting";
  input?: JsonObject;
  approved: boolean;
  approved_by: string[];
  edited: boolean;
  reason: string | null;
  mode: "enforce" | "shadow";
  repeated: boolean;
  would: "allow" | "block" | "ask" | null;
}

/**
 * Outcome of a call under the active nets now; see `gate.explain.Explanation`.
 *
 * `unclear` is why the call may do more than its names say. `judged_as` are names in the rules that
 * equal its tool's name after folding, but not exactly. `off` says for a recorded call what people had
 * switched off that would have stopped it, and who. `shell_fields` are as in `CallRecord`.
 */
export interface ExplanationView {
  tool: string;
  input: JsonObject;
  names: string[];
  outcome: "allow" | "block" | "ask";
  nets: NetView[];
  way: WayView | null;
  granted: string[];
  unclear: string | null;
  judged_as: string[];
  off: string | null;
  shell_fields: string[];
}

/** Time until which the request stays open; `None` if the call is withdrawn or already decided. */
export interface GivenUp {
  until: string | null;
}

/**
 * Verdict of one active net on the call, its marking, and its rule.
 *
 * `people` is how many must approve, 0 if it needs no approval, and `approvers` are the rule's words for
 * who may. `when` is the rule's condition, if it applies to the call. `note` says that the condition
 * does not hold, so that the net abstains, or why that is unknown, so that the net applies.
 */
export interface NetView {
  net: string;
  verdict: "free" | "abstain" | "gated" | "blocked";
  tool: string;
  asks: boolean;
  reason: string | null;
  marking: Record<string, number>;
  rule: RuleRecord | null;
  people: number;
  approvers: string | null;
  when: string | null;
  note: string | null;
}

/** An answer without content. */
export type Nothing = Record<string, never>;

/**
 * A call on the way: all its names, whether it needs approval, how it has to end.
 *
 * `people` is how many must approve, `outside` are the nets whose conditions it must not meet. With
 * `seconds` it is a wait of that length instead of a call; see `verify.PlannedCall`.
 */
export interface PlannedCallView {
  names: string[];
  approval: boolean;
  succeeds: boolean;
  people: number;
  outside: string[];
  seconds: number | null;
}

/** A rule's text and position; `line` counts from 1. */
export interface RuleRecord {
  file: string;
  line: number;
  text: string;
}

/** Description of what the rules allow the model now, for its system prompt. */
export interface RulesPrompt {
  text: string;
}

/** A session of this token has ended on the server, which refuses further calls of it. */
export interface SessionEnded {
  session: string;
  reason: string;
}

/** A live session; `again` is true if it was live before. */
export interface SessionOpen {
  session: string;
  mode: "enforce" | "shadow";
  active: string[];
  again: boolean;
}

/**
 * Way to get the call allowed.
 *
 * `reachable` is `yes` with the `calls`, this call last, `never` with the nets `against` it, or
 * `unknown` if there was too much to try. `shortest` says that no fewer calls lead there.
 */
export interface WayView {
  reachable: "yes" | "never" | "unknown";
  calls: PlannedCallView[];
  shortest: boolean;
  against: string[];
}

/**
 * Agreed protocol version, the client's name by its token, and the largest frame in bytes.
 *
 * `rights` are a console's rights on this connection: the kind of its token, or `look` if it is
 * read-only. `groups` are its operator's groups in the server's configuration. `page` is the URL of the
 * pages for phones, known from `[gateway] page` or if the server is one of `interlock web`. A server
 * that `traces` accepts the `traceparent` of calls.
 */
export interface Welcome {
  version: number;
  server: string;
  kind: "agent" | "operator";
  name: string;
  frame: number;
  rights: "look" | "decide" | "administer" | null;
  groups: string[];
  page: string | null;
  traces: boolean;
}

/** Parameters and result of each method, by its name on the wire. */
export interface Methods {
  "hello": { params: Hello; result: Welcome };
  "session.open": { params: OpenSession; result: SessionOpen };
  "session.resume": { params: ResumeSession; result: SessionOpen };
  "session.end_turn": { params: SessionParams; result: Nothing };
  "session.close": { params: SessionParams; result: Nothing };
  "session.report_message": { params: ReportMessage; result: Nothing };
  "session.prompt": { params: SessionParams; result: RulesPrompt };
  "tool.note_hints": { params: ToolClaims; result: Nothing };
  "tool.call": { params: CallTool; result: CallAnswer };
  "tool.withdraw": { params: WithdrawCall; result: Nothing };
  "tool.give_up": { params: GiveUp; result: GivenUp };
  "tool.result": { params: ToolResult; result: Nothing };
  "tool.explain": { params: ExplainCall; result: ExplanationView };
}

/** The result of each method, as a model of `MODELS`. */
export const RESULTS: Readonly<Record<keyof Methods, string>> = {
  "hello": "Welcome",
  "session.open": "SessionOpen",
  "session.resume": "SessionOpen",
  "session.end_turn": "Nothing",
  "session.close": "Nothing",
  "session.report_message": "Nothing",
  "session.prompt": "RulesPrompt",
  "tool.note_hints": "Nothing",
  "tool.call": "CallAnswer",
  "tool.withdraw": "Nothing",
  "tool.give_up": "GivenUp",
  "tool.result": "Nothing",
  "tool.explain": "ExplanationView",
};

/** What the server sends without being asked, as models of `MODELS`. */
export const NOTICES: Readonly<Record<string, string>> = {
  "session.ended": "SessionEnded",
};

/** JSON Schemas of what a server sends. */
export const MODELS: Readonly<Record<string, unknown>> = {
  CallAnswer: {"properties": {"outcome": {"enum": ["allow", "block", "waiting"], "type": "string"}, "input": {"additionalProperties": {"$ref": "JsonValue"}, "type": "object"}, "approved": {"default": false, "type": "boolean"}, "approved_by": {"default": [], "items": {"type": "string"}, "type": "array"}, "edited": {"default": false, "type": "boolean"}, "reason": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": null}, "mode": {"default": "enforce", "enum": ["enforce", "shadow"], "type": "string"}, "repeated": {"default": false, "type": "boolean"}, "would": {"anyOf": [{"enum": ["allow", "block", "ask"], "type": "string"}, {"type": "null"}], "default": null}}, "required": ["outcome"], "type": "object"},
  ExplanationView: {"properties": {"tool": {"type": "string"}, "input": {"additionalProperties": {"$ref": "JsonValue"}, "type": "object"}, "names": {"items": {"type": "string"}, "type": "array"}, "outcome": {"enum": ["allow", "block", "ask"], "type": "string"}, "nets": {"items": {"$ref": "NetView"}, "type": "array"}, "way": {"anyOf": [{"$ref": "WayView"}, {"type": "null"}]}, "granted": {"default": [], "items": {"type": "string"}, "type": "array"}, "unclear": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": null}, "judged_as": {"default": [], "items": {"type": "string"}, "type": "array"}, "off": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": null}, "shell_fields": {"default": [], "items": {"type": "string"}, "type": "array"}}, "required": ["tool", "input", "names", "outcome", "nets", "way"], "type": "object"},
  GivenUp: {"properties": {"until": {"anyOf": [{"format": "date-time", "type": "string"}, {"type": "null"}], "default": null}}, "type": "object"},
  NetView: {"properties": {"net": {"type": "string"}, "verdict": {"enum": ["free", "abstain", "gated", "blocked"], "type": "string"}, "tool": {"type": "string"}, "asks": {"type": "boolean"}, "reason": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "marking": {"additionalProperties": {"type": "integer"}, "type": "object"}, "rule": {"anyOf": [{"$ref": "RuleRecord"}, {"type": "null"}]}, "people": {"default": 0, "type": "integer"}, "approvers": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": null}, "when": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": null}, "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": null}}, "required": ["net", "verdict", "tool", "asks", "reason", "marking", "rule"], "type": "object"},
  Nothing: {"properties": {}, "type": "object"},
  PlannedCallView: {"properties": {"names": {"items": {"type": "string"}, "type": "array"}, "approval": {"type": "boolean"}, "succeeds": {"type": "boolean"}, "people": {"default": 1, "type": "integer"}, "outside": {"default": [], "items": {"type": "string"}, "type": "array"}, "seconds": {"anyOf": [{"type": "number"}, {"type": "null"}], "default": null}}, "required": ["names", "approval", "succeeds"], "type": "object"},
  RuleRecord: {"properties": {"file": {"type": "string"}, "line": {"type": "integer"}, "text": {"type": "string"}}, "required": ["file", "line", "text"], "type": "object"},
  RulesPrompt: {"properties": {"text": {"type": "string"}}, "required": ["text"], "type": "object"},
  SessionEnded: {"properties": {"session": {"type": "string"}, "reason": {"type": "string"}}, "required": ["session", "reason"], "type": "object"},
  SessionOpen: {"properties": {"session": {"type": "string"}, "mode": {"enum": ["enforce", "shadow"], "type": "string"}, "active": {"items": {"type": "string"}, "type": "array"}, "again": {"default": false, "type": "boolean"}}, "required": ["session", "mode", "active"], "type": "object"},
  WayView: {"properties": {"reachable": {"enum": ["yes", "never", "unknown"], "type": "string"}, "calls": {"default": [], "items": {"$ref": "PlannedCallView"}, "type": "array"}, "shortest": {"default": false, "type": "boolean"}, "against": {"default": [], "items": {"type": "string"}, "type": "array"}}, "required": ["reachable"], "type": "object"},
  Welcome: {"properties": {"version": {"type": "integer"}, "server": {"type": "string"}, "kind": {"enum": ["agent", "operator"], "type": "string"}, "name": {"type": "string"}, "frame": {"type": "integer"}, "rights": {"anyOf": [{"enum": ["look", "decide", "administer"], "type": "string"}, {"type": "null"}], "default": null}, "groups": {"default": [], "items": {"type": "string"}, "type": "array"}, "page": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": null}, "traces": {"default": false, "type": "boolean"}}, "required": ["version", "server", "kind", "name", "frame"], "type": "object"},
};
