/** WebAssembly modules whose memory several threads share. */

/** Sections of a module, and kinds of imports: WebAssembly specification, 5.5. */
const SECTION = { imports: 2, memory: 5 } as const;
const IMPORTED = { function: 0, memory: 2 } as const;
const HEADER_BYTES = 8;
/** Flags of a memory with a maximum size, and of a shared one, which needs a maximum size. */
const FLAG = { hasMaximum: 1, isShared: 3 } as const;

/**
 * Returns a copy of a module that differs only in its memory, which is shared. A compiler writes
 * only one of the two modules, so this function makes the other one.
 *
 * @param module imports functions only, or memory first. Its memory has a maximum size.
 * @throws TypeError for other modules.
 */
export function withSharedMemory(module: Uint8Array): Uint8Array<ArrayBuffer> {
  const copy = module.slice();
  let at = HEADER_BYTES;
  const next = (): number => {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = copy[at++]!;
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value >>> 0;
    }
  };
  const skipName = (): void => {
    const bytes = next();
    at += bytes;
  };
  const flagsAt = (): number | null => {
    while (at < copy.length) {
      const section = copy[at++];
      const end = next() + at;
      if (section === SECTION.memory) {
        next();
        return at;
      }
      if (section === SECTION.imports) {
        for (let count = next(); count > 0; count--) {
          skipName();
          skipName();
          const kind = copy[at++];
          if (kind === IMPORTED.memory) return at;
          if (kind !== IMPORTED.function) return null;
          next();
        }
      }
      at = end;
    }
    return null;
  };
  const flags = flagsAt();
  if (flags === null || copy[flags] !== FLAG.hasMaximum) {
    throw new TypeError('The WebAssembly module has no memory with a maximum size.');
  }
  copy[flags] = FLAG.isShared;
  return copy;
}
