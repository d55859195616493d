/**
 * A log of what this rank does, to find out why a room does not work as expected. It is off by
 * default. Patterns of the npm package `debug` turn scopes on: in Node in the environment variable
 * DEBUG, on a page in `localStorage.debug`. A worker has no localStorage, so its page passes the
 * patterns to it.
 */
import debug from 'debug';

export interface DebugLog {
  /** Writes a line. `line` is not called while the scope is off. */
  (line: () => string): void;
  readonly isOn: () => boolean;
}

export function createDebugLog(scope: 'membership' | 'links' | 'collectives' | 'recovery'): DebugLog {
  const write = debug(`peergrad:${scope}`);
  const log = (line: () => string): void => {
    // The line is an argument of a format, because error messages may contain percent signs.
    if (write.enabled) write('%s', line());
  };
  return Object.assign(log, { isOn: () => write.enabled });
}

/** Turns scopes on and off in this thread. */
export function setDebugPatterns(patterns: string): void {
  debug.enable(patterns);
}

/**
 * Passes the patterns of this page to `pass`: now, and whenever another tab of this address changes
 * them. So even a tab that is already stuck begins to log without a reload.
 *
 * @returns a function that ends this.
 */
export function watchDebugPatterns(pass: (patterns: string) => void): () => void {
  const patterns = storedPatterns();
  if (patterns !== null) pass(patterns);
  const onstorage = ({ key, newValue }: StorageEvent): void => {
    if (key === KEY) pass(newValue ?? '');
  };
  globalThis.addEventListener('storage', onstorage);
  return () => globalThis.removeEventListener('storage', onstorage);
}

const KEY = 'debug';

function storedPatterns(): string | null {
  try {
    return globalThis.localStorage.getItem(KEY);
  } catch {
    // The browser forbids storage, for example in a private window.
    return null;
  }
}
