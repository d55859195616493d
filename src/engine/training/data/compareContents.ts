/**
 * Compares the contents of files that ranks read while they train. Before a run, ranks compare only
 * the names and sizes of such files, and the checksums that a zip file states.
 */
import type { ProcessGroup } from '../../../collectives/processGroup.ts';
import type { FileContents } from '../../../jobs/index.ts';
import { DataError } from '../../../util/errors.ts';
import { hashState } from '../../../util/hash.ts';

interface Checksum {
  readonly rank: number;
  readonly crc: number;
}

export class ContentComparison {
  readonly #contents: FileContents;
  /** The checksums that ranks have reported, by file. */
  readonly #known = new Map<number, Checksum>();
  readonly #reported = new Set<number>();

  constructor(contents: FileContents) {
    this.#contents = contents;
  }

  /**
   * Compares the checksums that zip files state.
   *
   * @throws (rejects) as {@link compare}.
   */
  async compareStated(group: ProcessGroup): Promise<void> {
    const { stated } = this.#contents;
    const hashes = await group.allGatherObject(stated && hashState([stated]));
    if (new Set(hashes.filter((hash) => hash !== null)).size <= 1) return;
    const all = await group.allGatherObject(Array.from(stated ?? []));
    this.#check(all.map((crcs) => [...crcs.entries()]));
  }

  /**
   * Compares the files that ranks have read since the previous call. Every rank must call it.
   *
   * @throws (rejects) DataError on all ranks if a file has other contents on another rank. The
   *   error names the file and both ranks.
   */
  async compare(group: ProcessGroup): Promise<void> {
    const added = [...this.#contents.crcs].filter(([file]) => !this.#reported.has(file));
    for (const [file] of added) this.#reported.add(file);
    this.#check(await group.allGatherObject(added));
  }

  /** @param reports for each rank: files and their CRC-32. */
  #check(reports: readonly (readonly (readonly [file: number, crc: number])[])[]): void {
    for (const [rank, report] of reports.entries()) {
      for (const [file, crc] of report) {
        const known = this.#known.get(file) ?? { rank, crc };
        this.#known.set(file, known);
        if (known.crc !== crc) throw this.#difference(file, known, { rank, crc });
      }
    }
  }

  #difference(file: number, ...found: readonly Checksum[]): DataError {
    const ranks = found.map(({ rank, crc }) => `rank ${rank} (CRC-32 ${crc.toString(16).padStart(8, '0')})`);
    return new DataError(
      `${this.#contents.nameOf(file)} has the same size, but other contents on ${ranks.join(' and ')}. Choose the same files in every tab.`,
    );
  }
}
