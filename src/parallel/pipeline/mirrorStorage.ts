/** Storage of a mirror (see `stageMirror.ts`): one long array of float32 elements. */

export interface StageMirrorStorage {
  /** Reads the elements from index `at` on. */
  read(at: number, into: Float32Array): void;
  write(at: number, values: Float32Array): void;
  close(): void;
}

/** Creates a storage of `elements` elements. Their values are not defined. */
export type OpenStageMirrorStorage = (elements: number) => Promise<StageMirrorStorage>;

/** Stores a mirror in memory. */
export const openStageMirrorInMemory: OpenStageMirrorStorage = (elements) => {
  const array = new Float32Array(elements);
  return Promise.resolve({
    read: (at, into) => into.set(array.subarray(at, at + into.length)),
    write: (at, values) => array.set(values, at),
    close: () => {},
  });
};
