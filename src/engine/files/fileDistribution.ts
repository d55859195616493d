/**
 * In each generation, sends a job's files from the ranks that have them to all ranks. If slices are
 * missing on all ranks, the error names the ranks that had all files and have left.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { distributeFiles } from '../../parallel/data/distributeFiles.ts';
import type { RosterEntry } from '../../protocol/room.ts';
import type { EngineEvent } from '../../protocol/events.ts';
import type { Clock } from '../../util/clock.ts';
import { PeergradError } from '../../util/errors.ts';
import type { SharedFiles } from './sharedFiles.ts';

/** The largest number of files that a message names. */
const MOST_NAMED = 4;

interface FileDistributionOptions {
  /** This tab's slices. */
  shared: SharedFiles;
  clock: Clock;
  emit: (event: EngineEvent) => void;
}

export class FileDistribution {
  readonly #options: FileDistributionOptions;
  /** Names of the members that once had all files. The keys are member ids. */
  readonly #completeMembers = new Map<string, string>();

  constructor(options: FileDistributionOptions) {
    this.#options = options;
  }

  /**
   * Sends missing slices from rank to rank, until all ranks of a generation have all files. Every
   * rank must call it.
   *
   * @throws (rejects) PeergradError if slices are missing on all ranks. The error names the ranks
   *   that had all files and have left. Also rejects with the errors of `distributeFiles`.
   */
  async run(group: ProcessGroup, members: readonly RosterEntry[]): Promise<void> {
    const { shared, clock, emit } = this.#options;
    const total = shared.totalBytes;
    const missing = await distributeFiles(group, shared, {
      clock,
      onprogress: (bytesPerRank) => {
        for (const [rank, { member, name }] of members.entries()) {
          if (bytesPerRank[rank] === total) this.#completeMembers.set(member, name);
        }
        emit({ type: 'distribution', what: 'files', generation: group.generation, total, bytesPerRank });
      },
    });
    if (missing.length > 0) throw this.#incomplete(missing, members);
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
