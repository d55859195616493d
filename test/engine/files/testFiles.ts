/** Files for tests of file distribution. */
import { hashOfArrays } from '../../../src/util/hash.ts';

/** Returns a file of `size` bytes. The bytes differ between slices and between seeds. */
export function fileOf(name: string, size: number, seed = 1): File {
  const bytes = new Uint8Array(size);
  for (let i = 0, state = seed; i < size; i++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    bytes[i] = state >>> 24;
  }
  return new File([bytes], name);
}

/** Returns a text that is equal for two files with equal contents. */
export async function contentOf(file: Blob): Promise<string> {
  return `${file.size} bytes ${hashOfArrays([new Uint8Array(await file.arrayBuffer())])}`;
}

/**
 * A file on a disk, as browsers read it. After `change` is called, its beginning cannot be read any
 * more.
 */
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
