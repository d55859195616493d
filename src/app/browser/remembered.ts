/** Choices and names that this browser keeps for the page. */

/** A stored value. If storage is forbidden, it lasts as long as the page. */
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
        // Private windows may forbid storage.
      }
    },
  };
}
