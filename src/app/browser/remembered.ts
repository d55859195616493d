/** What this browser keeps for the page, small things only: choices and names. */

/** A value kept in this browser; storage may be forbidden, then it is forgotten with the page. */
export function remembered(key: string): { get(): string | null; set(value: string | null): void } {
  return {
    get() {
      try {
        return localStorage.getItem(key);
      } catch {
        return null;
      }
    },
    set(value) {
      try {
        if (value === null) localStorage.removeItem(key);
        else localStorage.setItem(key, value);
      } catch {
        // Private windows may refuse.
      }
    },
  };
}
