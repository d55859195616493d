/**
 * In each generation, sends a job's files from the ranks that have them to all ranks. The run
 * begins when all ranks have the slices that are needed to open the data. If slices are missing on
 * all ranks, the error names the ranks that had all files and have left.
 */
import { DEFAULT_OP_TIMEOUT_MS, type ProcessGroup } from '../../collectives/processGroup.ts';
import { distributeFiles, type DistributeFilesOptions } from '../../parallel/data/distributeFiles.ts';
import type { RosterEntry } from '../../protocol/room.ts';
import type { EngineEvent } from '../../protocol/events.ts';
import type { Clock } from '../../util/clock.ts';
import { asError, DataError, PeergradError } from '../../util/errors.ts';
import { hashOfArrays } from '../../util/hash.ts';
import type { SharedFileSlices } from './sharedFileSlices.ts';
import { wholeFilesSliceOrder, type FileSliceOrder } from './fileSliceOrder.ts';

/** The largest number of files that a message names. */
const MOST_NAMED = 4;

/**
 * Number of slices in transit over a link while the run trains. It is small, so that the frames of
 * the training do not wait long behind slices.
 */
const AHEAD = 4;

/**
 * Options of the group in which slices arrive while the run trains. The group is created in
 * SYNCING, and would otherwise have the longer timeout of SYNCING.
 */
const BACKGROUND = { timeoutMs: DEFAULT_OP_TIMEOUT_MS };

interface FileDistributionOptions {
  /** This tab's slices. */
  shared: SharedFileSlices;
  clock: Clock;
  emit: (event: EngineEvent) => void;
  /** Determines the order in which the run needs the slices, if this rank has all of them. */
  orderOf: () => Promise<FileSliceOrder>;
}

export class FileDistribution {
  readonly #options: FileDistributionOptions;
  /** Names of the members that once had all files. The keys are member ids. */
  readonly #completeMembers = new Map<string, string>();
  /** The order on which ranks have agreed; `null` before they agree. */
  #order: FileSliceOrder | null = null;
  /** The group in which the current generation receives slices while it trains. */
  #background: ProcessGroup | null = null;

  constructor(options: FileDistributionOptions) {
    this.#options = options;
  }

  /** Whether this rank has all slices that are needed before the first step. */
  get canOpen(): boolean {
    const { shared } = this.#options;
    return shared.isWhole || (this.#order !== null && openingOf(this.#order).every((slice) => shared.has(slice)));
  }

  /**
   * Sends missing slices from rank to rank, until all ranks of a generation have those that are
   * needed before the first step. The other slices follow in the background, in the order in which
   * they are needed. If these cannot be distributed, `group` ends with the error. Every rank must
   * call it.
   *
   * @throws (rejects) PeergradError if slices are missing on all ranks. The error names the ranks
   *   that had all files and have left. Also rejects with the errors of `distributeFiles`.
   */
  async run(group: ProcessGroup, members: readonly RosterEntry[]): Promise<void> {
    const { shared } = this.#options;
    this.leave();
    shared.begin();
    try {
      const order = await this.#agree(group, { opensFiles: true });
      await this.#distribute(group, members, { order: openingOf(order) });
      if (order.opening === order.slices.length) return this.#complete();
      this.#continue(group, await group.newGroup(group.ranks, BACKGROUND), members, order);
    } catch (error) {
      shared.end(asError(error));
      throw error;
    }
  }

  /**
   * Gives a newcomer all slices that its feeder has, before the newcomer enters a generation. Both
   * must call it.
   *
   * @param emit receives the progress.
   * @throws (rejects) as {@link run}.
   */
  async feed(
    group: ProcessGroup,
    members: readonly RosterEntry[],
    emit: FileDistributionOptions['emit'],
  ): Promise<void> {
    const order = await this.#agree(group, { opensFiles: false });
    await this.#distribute(group, members, { order: order.slices, allowsMissing: true }, { needs: order, emit });
  }

  /** Ends the distribution in the background. A later {@link run} continues it. */
  leave(): void {
    this.#stop(new PeergradError('The run has ended, or continues with other ranks, before all files have arrived.'));
  }

  /** Distributes the slices that are not needed to open the data, while the run trains. */
  #continue(
    group: ProcessGroup,
    background: ProcessGroup,
    members: readonly RosterEntry[],
    order: FileSliceOrder,
  ): void {
    const isCurrent = (): boolean => this.#background === background;
    this.#background = background;
    // Every rank learns from its own group that the generation has failed.
    void group.failed.then((error) => isCurrent() && this.#stop(error));
    this.#distribute(background, members, { order: order.slices, ahead: AHEAD }).then(
      () => {
        if (isCurrent()) this.#complete();
      },
      (error: unknown) => {
        if (!isCurrent()) return;
        this.#stop(asError(error));
        group.abort(asError(error));
      },
    );
  }

  /** Ends the distribution in the background. Reads that wait reject with `error`. */
  #stop(error: Error): void {
    const background = this.#background;
    if (background === null) return;
    this.#background = null;
    this.#options.shared.end(error);
    background.destroy();
  }

  /**
   * Called when all slices are here. From then on, slices only become missing if a chosen file
   * changes.
   */
  #complete(): void {
    this.#options.shared.end(
      new DataError('Some files that this tab chose have since been changed, moved or deleted. Choose them again.'),
    );
  }

  /**
   * Agrees on the order of slices. It is the order of the first rank that knows one. If no rank
   * knows one and `opensFiles` is true, the first rank that has all files determines it. If no rank
   * knows one and `opensFiles` is false, it is the order of the manifest, because a feeder trains
   * and the newcomer receives all of its slices anyway. If all ranks have all files, the order does
   * not matter.
   */
  async #agree(group: ProcessGroup, { opensFiles }: { opensFiles: boolean }): Promise<FileSliceOrder> {
    const { shared, orderOf } = this.#options;
    const { isWhole } = shared;
    const hash = this.#order && hashOfArrays([this.#order.slices, Uint32Array.of(this.#order.opening)]);
    const ranks = await group.allGatherObject({ isWhole, hash });
    const whole = ranks.findIndex((rank) => rank.isWhole);
    const knowing = ranks.findIndex((rank) => rank.hash !== null);
    const from = knowing < 0 && opensFiles ? whole : knowing;
    if (from < 0 || ranks.every((rank) => rank.isWhole)) return wholeFilesSliceOrder(shared.count);
    if (group.rank === from) this.#order ??= await orderOf();
    if (knowing < 0 || ranks.some((rank) => rank.hash !== ranks[from]!.hash)) {
      this.#order = await group.broadcastObject(this.#order ?? undefined, group.ranks[from]!);
    }
    return this.#order!;
  }

  /** @throws (rejects) PeergradError if slices that are needed are missing on all ranks. */
  async #distribute(
    group: ProcessGroup,
    members: readonly RosterEntry[],
    options: Pick<DistributeFilesOptions, 'order' | 'ahead' | 'allowsMissing'>,
    { emit, needs }: { emit: FileDistributionOptions['emit']; needs?: FileSliceOrder } = this.#options,
  ): Promise<void> {
    const { shared, clock } = this.#options;
    const total = shared.totalBytes;
    const missing = await distributeFiles(group, shared, {
      clock,
      onprogress: (bytesPerRank) => {
        for (const [rank, { member, name }] of members.entries()) {
          if (bytesPerRank[rank] === total) this.#completeMembers.set(member, name);
        }
        emit({ type: 'distribution', what: 'files', generation: group.generation, total, bytesPerRank });
      },
      ...options,
    });
    const needed = needs && new Set(openingOf(needs));
    if (missing.some((slice) => needed?.has(slice) ?? true)) throw this.#incomplete(missing, members);
  }

  #incomplete(missing: readonly number[], members: readonly RosterEntry[]): Error {
    const here = new Set(members.map(({ member }) => member));
    const gone = [...this.#completeMembers].flatMap(([member, name]) => (here.has(member) ? [] : [name]));
    const { shared } = this.#options;
    const names = shared.manifest.map(({ name }) => name);
    const files = names.length > MOST_NAMED ? `${names.slice(0, MOST_NAMED).join(', ')} and others` : names.join(', ');
    const left = gone.length === 0 ? '' : `${gone.join(' and ')} had all files and left. `;
    const { spoilt } = shared;
    const changed =
      spoilt.length === 0
        ? ''
        : `Files that were changed, moved or deleted after they were chosen here: ${spoilt.join(', ')}. `;
    return new PeergradError(
      `${left}${changed}No rank has all of ${files}: ${missing.length} of ${shared.count} slices are missing. Choose these files again in the ` +
        "host's lobby, and start again. Slices that were received are kept.",
    );
  }
}

/** Returns the slices that are needed before the first step. */
function openingOf({ slices, opening }: FileSliceOrder): Uint32Array {
  return slices.subarray(0, opening);
}
