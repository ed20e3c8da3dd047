/** Errors of the gate. Each means that the call must not run. */

import type { JsonObject } from "./protocol.ts";

/** An error of the connection or the server; nothing may run because of it. */
export class GatewayError extends Error {
  override name = "GatewayError";
}

/** There is no connection, or it was lost before the answer arrived. */
export class UnreachableError extends GatewayError {
  override name = "UnreachableError";
}

/** The server does not admit this client: another token or version is needed. */
export class NotAdmittedError extends GatewayError {
  override name = "NotAdmittedError";
}

/** The server refused a request; `code` is one of `Code`. */
export class RequestFailedError extends GatewayError {
  override name = "RequestFailedError";
  readonly code: number;
  readonly data: JsonObject;

  constructor(code: number, message: string, data: JsonObject = {}) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

/** A call that was not allowed and has not run; `reason` is for the model. */
export class Blocked extends Error {
  override name = "Blocked";
  readonly tool: string;
  readonly callId: string;
  readonly reason: string;

  constructor(tool: string, callId: string, reason: string) {
    super(`Tool '${tool}' blocked: ${reason}`);
    this.tool = tool;
    this.callId = callId;
    this.reason = reason;
  }
}

/** A number that JavaScript cannot represent exactly. */
export class InexactNumberError extends GatewayError {
  override name = "InexactNumberError";
}
