/** The value, or `undefined` if it is not JSON; bytes are UTF-8. */
export function parseJson(json: string | Uint8Array): unknown {
  try {
    return JSON.parse(typeof json === 'string' ? json : new TextDecoder('utf-8', { fatal: true }).decode(json));
  } catch {
    return undefined;
  }
}
