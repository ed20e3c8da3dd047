// Passkeys of this device. Bytes are exchanged with the server as base64url.

const bytes = (text) =>
  Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (each) => each.charCodeAt(0));
const text = (buffer) =>
  btoa(String.fromCharCode(...new Uint8Array(buffer)))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replaceAll("=", "");
const listed = (keys) => keys.map((each) => ({ ...each, id: bytes(each.id) }));

// Returns the reason why passkeys cannot be created or used here, or null.
export function trouble() {
  if (!window.isSecureContext) return "Passkeys need a page with TLS, or http://localhost.";
  return window.PublicKeyCredential ? null : "This browser has no passkeys.";
}

export async function make(options) {
  const { challenge, user, excludeCredentials } = options;
  const publicKey = {
    ...options,
    challenge: bytes(challenge),
    user: { ...user, id: bytes(user.id) },
    excludeCredentials: listed(excludeCredentials),
  };
  const made = await navigator.credentials.create({ publicKey });
  return {
    credential: text(made.rawId),
    attestation: text(made.response.attestationObject),
    client: text(made.response.clientDataJSON),
  };
}

export async function signWith(options) {
  const { challenge, allowCredentials } = options;
  const publicKey = { ...options, challenge: bytes(challenge), allowCredentials: listed(allowCredentials) };
  const { rawId, response } = await navigator.credentials.get({ publicKey });
  return {
    credential: text(rawId),
    authenticator: text(response.authenticatorData),
    client: text(response.clientDataJSON),
    signature: text(response.signature),
  };
}
