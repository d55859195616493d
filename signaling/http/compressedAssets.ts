/** Compresses files of the built page for tabs of other machines, each at its first request. */
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';

/** Content types of files that compression makes smaller, by the ends of their names. */
const TYPES = new Map([
  ['.js', 'text/javascript; charset=utf-8'],
  ['.css', 'text/css; charset=utf-8'],
  ['.svg', 'image/svg+xml'],
  ['.wasm', 'application/wasm'],
]);
const COMPRESS = promisify(gzip);
/** `gzip;q=0` refuses it. */
const ACCEPTS_GZIP = /(?:^|[\s,])gzip(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))/i;

export interface CompressedAsset {
  type: string;
  content: Buffer;
}

export function acceptsGzip(acceptEncoding: string | undefined): boolean {
  return ACCEPTS_GZIP.test(acceptEncoding ?? '');
}

export class CompressedAssets {
  readonly #folder: string;
  /**
   * The keys are names of files. Contents never change, because names contain a hash of the
   * content.
   */
  readonly #contents = new Map<string, Promise<Buffer>>();

  /**
   * @param folder a folder of files whose names contain a hash of their content.
   */
  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Returns a file of the folder; `null` if its type is not compressed or it cannot be read. */
  async file(name: string): Promise<CompressedAsset | null> {
    const type = TYPES.get(path.extname(name));
    if (type === undefined || path.basename(name) !== name || name.startsWith('.')) return null;
    let content = this.#contents.get(name);
    if (content === undefined) {
      content = readFile(path.join(this.#folder, name)).then((bytes) => COMPRESS(bytes));
      this.#contents.set(name, content);
    }
    try {
      return { type, content: await content };
    } catch {
      // A failure is not kept, so that requests for files that do not exist do not fill the memory.
      this.#contents.delete(name);
      return null;
    }
  }
}
