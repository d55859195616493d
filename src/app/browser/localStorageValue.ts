/** Choices and names that this browser stores for the next visit. */

/**
 * A value in the storage of the browser. If storage is forbidden, the value is kept until the page
 * is closed.
 */
export function localStorageValue(key: string): { get(): string | null; set(value: string | null): void } {
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
