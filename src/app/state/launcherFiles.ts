/**
 * Files that travel between this page and a launcher that drives it. They travel in parts, because
 * a message with a whole model would be copied several times.
 */
declare global {
  /** Installed by a launcher whose tab starts from a file: returns its name and its size. */
  // oxlint-disable-next-line no-var -- only `var` declares a property of globalThis
  var peergradOrigin: (() => Promise<{ name: string; size: number }>) | undefined;
  /** Installed with {@link peergradOrigin}: returns some bytes of the file. */
  // oxlint-disable-next-line no-var
  var peergradOriginPart: ((from: number, to: number) => Promise<Uint8Array<ArrayBuffer>>) | undefined;
  /**
   * For the launcher: returns the requested bytes of the latest exported file, or fewer at its end.
   */
  // oxlint-disable-next-line no-var
  var peergradModelPart: ((from: number, to: number) => Promise<Uint8Array<ArrayBuffer>>) | undefined;
}

const PART_BYTES = 8 * 1024 * 1024;

/** Resolves with the file from which the launcher starts this tab; `null` without such a file. */
export async function receiveFileFromLauncher(): Promise<File | null> {
  const { peergradOrigin: origin, peergradOriginPart: read } = globalThis;
  if (!origin || !read) return null;
  const { name, size } = await origin();
  const parts: Blob[] = [];
  // Each part becomes a blob immediately, so that the browser can move it out of memory.
  for (let at = 0; at < size; at += PART_BYTES) parts.push(new Blob([await read(at, at + PART_BYTES)]));
  return new File(parts, name);
}

/** Makes an exported file readable for the launcher. */
export function offerFileToLauncher(content: Blob): void {
  globalThis.peergradModelPart = async (from, to) => new Uint8Array(await content.slice(from, to).arrayBuffer());
}
