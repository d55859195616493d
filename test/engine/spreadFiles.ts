/** Files for tests of handing them on. */

/** `size` bytes that differ from slice to slice, and with `seed`. */
export function fileOf(name: string, size: number, seed = 1): File {
  let state = seed;
  const bytes = Uint8Array.from({ length: size }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state >>> 24;
  });
  return new File([bytes], name);
}

export async function bytesOf(file: Blob): Promise<Uint8Array> {
  return new Uint8Array(await file.arrayBuffer());
}

/** A file on a disk, as browsers read one: after `change`, its beginning can be read no more. */
export function changingFile(name: string, size: number): { file: File; change: () => void } {
  let isChanged = false;
  const file = fileOf(name, size);
  const slice = file.slice.bind(file);
  file.slice = (start, end) => {
    const part = slice(start, end);
    const read = part.arrayBuffer.bind(part);
    part.arrayBuffer = () => (isChanged && start === 0 ? Promise.reject(new Error('it has changed')) : read());
    return part;
  };
  return { file, change: () => (isChanged = true) };
}
