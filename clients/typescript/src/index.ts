export { connect, type AgentClient, type ConnectOptions, type SessionOptions } from "./client.ts";
export {
  Blocked,
  GatewayError,
  InexactNumberError,
  NotAdmittedError,
  RequestFailedError,
  UnreachableError,
} from "./errors.ts";
export { Code, VERSION, type ExplanationView, type JsonObject, type JsonValue } from "./protocol.ts";
export { returnedFailure, type ResultClassifier } from "./results.ts";
export type {
  AgentSession,
  Allow,
  Answer,
  Block,
  CallOptions,
  Gated,
  GateOptions,
  PlanStep,
  ResultOptions,
  Run,
  Waiting,
} from "./session.ts";
