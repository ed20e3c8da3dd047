/** Validation of a server's messages against the protocol's schema: an invalid answer allows nothing. */

import { MODELS } from "./protocol.ts";

interface Schema {
  readonly $ref?: string;
  readonly type?: string;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: Schema | boolean;
  readonly default?: unknown;
}

/** A value that does not fit its model; the message has its position, but never the value. */
export class ModelError extends Error {}

/**
 * Return a message in the form of its model: defaults filled in, fields unknown to this version left out.
 *
 * Throws `ModelError`.
 */
export function readModel(name: string, value: unknown): unknown {
  return read({ $ref: name }, value, name);
}

function read(schema: Schema, value: unknown, at: string): unknown {
  if (schema.$ref === "JsonValue") return value;
  if (schema.$ref !== undefined) {
    const model = MODELS[schema.$ref] as Schema | undefined;
    if (model === undefined) throw new ModelError(`${at}: there is no model ${schema.$ref}`);
    return read(model, value, at);
  }
  if (schema.anyOf !== undefined) return readAny(schema.anyOf, value, at);
  if (schema.enum !== undefined && !schema.enum.includes(value)) {
    throw new ModelError(`${at}: expected one of ${schema.enum.join(", ")}`);
  }
  switch (schema.type) {
    case "array":
      if (!Array.isArray(value)) break;
      return value.map((each, place) => read(schema.items ?? {}, each, `${at}[${place}]`));
    case "object":
      if (typeof value !== "object" || value === null || Array.isArray(value)) break;
      return readObject(schema, value as Record<string, unknown>, at);
    case "integer":
      if (Number.isSafeInteger(value)) return value;
      break;
    case "null":
      if (value === null) return value;
      break;
    case "string":
    case "number":
    case "boolean":
      if (typeof value === schema.type) return value;
      break;
  }
  throw new ModelError(`${at}: expected ${schema.type ?? "something that this version knows"}`);
}

function readAny(schemas: readonly Schema[], value: unknown, at: string): unknown {
  const problems: string[] = [];
  for (const each of schemas) {
    try {
      return read(each, value, at);
    } catch (error) {
      if (!(error instanceof ModelError)) throw error;
      problems.push(error.message);
    }
  }
  throw new ModelError(problems.join(", or "));
}

function readObject(schema: Schema, value: Record<string, unknown>, at: string): unknown {
  if (schema.properties === undefined) {
    const kind = schema.additionalProperties;
    if (typeof kind !== "object") throw new ModelError(`${at}: expected something that this version knows`);
    for (const [key, each] of Object.entries(value)) read(kind, each, `${at}.${key}`);
    return value;
  }
  const found: Record<string, unknown> = {};
  for (const [key, kind] of Object.entries(schema.properties)) {
    if (Object.hasOwn(value, key)) found[key] = read(kind, value[key], `${at}.${key}`);
    else if (schema.required?.includes(key)) throw new ModelError(`${at}.${key}: it is missing`);
    else if ("default" in kind) found[key] = structuredClone(kind.default);
  }
  return found;
}
