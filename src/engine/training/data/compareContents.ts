/**
 * Compares the contents of files that ranks read while they train. Before a run, ranks compare only
 * the names and sizes of such files, and the checksums that a zip file states.
 */
import type { ProcessGroup } from '../../../collectives/processGroup.ts';
import type { LazyFileContents } from '../../../jobs/index.ts';
import { divergentRanks, rejectDivergentRanks } from '../../../parallel/recovery/stateElection.ts';
import { DataError } from '../../../util/errors.ts';
import { hashOfArrays } from '../../../util/hash.ts';

/** CRC-32 of a file, with the ranks that reported it. */
interface Checksum {
  readonly ranks: number[];
  readonly crc: number;
}

export class ContentComparison {
  readonly #contents: LazyFileContents;
  /** For each rank of this world, whether it entered without a state. */
  #isFresh: readonly boolean[] = [];
  /** The checksums that ranks of this world have reported, by file. */
  #known = new Map<number, Checksum[]>();
  #reported = new Set<number>();

  private constructor(contents: LazyFileContents) {
    this.#contents = contents;
  }

  /** Returns `null` if the run reads no such files. */
  static of({ contents }: { readonly contents?: LazyFileContents | null }): ContentComparison | null {
    return contents ? new ContentComparison(contents) : null;
  }

  /**
   * Enters a world, and compares the checksums that zip files state. Every rank must call it.
   *
   * @param isFresh whether this rank has no state.
   * @throws (rejects) as {@link compare}.
   */
  async enter(group: ProcessGroup, isFresh: boolean): Promise<void> {
    // Newcomers do not know what was reported in earlier worlds.
    this.#known = new Map();
    this.#reported = new Set();
    const { stated } = this.#contents;
    const ranks = await group.allGatherObject({ isFresh, hash: stated && hashOfArrays([stated]) });
    this.#isFresh = ranks.map((one) => one.isFresh);
    if (new Set(ranks.map(({ hash }) => hash).filter((hash) => hash !== null)).size <= 1) return;
    const all = await group.allGatherObject(Array.from(stated ?? []));
    this.#check(
      group,
      all.map((crcs) => [...crcs.entries()]),
    );
  }

  /**
   * Compares the files that ranks have read in this world so far. Every rank must call it.
   *
   * @throws (rejects) DataError on the ranks whose contents of a file differ from those of most
   *   ranks that have read it, PeergradError on the others, with `context.divergent`. The error
   *   names the file and the ranks.
   */
  async compare(group: ProcessGroup): Promise<void> {
    const added = [...this.#contents.crcs].filter(([file]) => !this.#reported.has(file));
    const reports = await group.allGatherObject(added);
    for (const [file] of added) this.#reported.add(file);
    this.#check(group, reports);
  }

  /** @param reports for each rank: files and their CRC-32. */
  #check(group: ProcessGroup, reports: readonly (readonly (readonly [file: number, crc: number])[])[]): void {
    for (const [rank, report] of reports.entries()) {
      for (const [file, crc] of report) {
        const found = this.#known.get(file) ?? [];
        const same = found.find((one) => one.crc === crc);
        if (same === undefined) found.push({ ranks: [rank], crc });
        else same.ranks.push(rank);
        this.#known.set(file, found);
      }
    }
    const differing = [...this.#known].find(([, found]) => found.length > 1);
    if (differing !== undefined) this.#reject(group, ...differing);
  }

  #reject(group: ProcessGroup, file: number, found: readonly Checksum[]): never {
    const votes = found.flatMap(({ ranks, crc }) =>
      ranks.map((rank) => ({ rank, crc: crc.toString(16).padStart(8, '0') })),
    );
    votes.sort((a, b) => a.rank - b.rank);
    const divergent = divergentRanks(
      votes.map(({ crc }) => crc),
      votes.map(({ rank }) => this.#isFresh[rank]!),
    ).map((at) => votes[at]!.rank);
    const ranks = votes.map(({ rank, crc }) => `rank ${rank} (CRC-32 ${crc})`);
    rejectDivergentRanks(
      group,
      divergent,
      DataError,
      `${this.#contents.nameOf(file)} has the same size, but other contents on ${ranks.join(' and ')}. Choose the same files in every tab.`,
    );
  }
}
