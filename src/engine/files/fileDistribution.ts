/**
 * A job's files, from the ranks that have them to all ranks of each generation; says who has left
 * with what nobody else has.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { distributeFiles } from '../../parallel/data/distributeFiles.ts';
import type { RosterEntry } from '../../protocol/room.ts';
import type { EngineEvent } from '../../protocol/events.ts';
import type { Clock } from '../../util/clock.ts';
import { PeergradError } from '../../util/errors.ts';
import type { SharedFiles } from './sharedFiles.ts';

/** Files that a message names. */
const MOST_NAMED = 4;

interface FileDistributionOptions {
  /** What this tab has of them. */
  shared: SharedFiles;
  clock: Clock;
  emit: (event: EngineEvent) => void;
}

export class FileDistribution {
  readonly #options: FileDistributionOptions;
  /** Names of the members that were seen to have all of it, by member. */
  readonly #holders = new Map<string, string>();

  constructor(options: FileDistributionOptions) {
    this.#options = options;
  }

  /**
   * Gives all ranks of a generation all files. Every rank must call it.
   *
   * @throws (rejects) PeergradError that names who has left, where the others do not have
   *   everything; what `spread` rejects with.
   */
  async run(group: ProcessGroup, members: readonly RosterEntry[]): Promise<void> {
    const { shared, clock, emit } = this.#options;
    const total = shared.totalBytes;
    const missing = await distributeFiles(group, shared, {
      clock,
      onprogress: (held) => {
        for (const [rank, { member, name }] of members.entries()) {
          if (held[rank] === total) this.#holders.set(member, name);
        }
        emit({ type: 'file-distribution', generation: group.generation, total, held });
      },
    });
    if (missing.length > 0) throw this.#lost(missing, members);
  }

  #lost(missing: readonly number[], members: readonly RosterEntry[]): Error {
    const here = new Set(members.map(({ member }) => member));
    const gone = [...this.#holders].flatMap(([member, name]) => (here.has(member) ? [] : [name]));
    const { shared } = this.#options;
    const names = shared.manifest.map(({ name }) => name);
    const files = names.length > MOST_NAMED ? `${names.slice(0, MOST_NAMED).join(', ')} and others` : names.join(', ');
    const left = gone.length === 0 ? '' : `${gone.join(' and ')}, who had all of it, has left. `;
    const { spoilt } = shared;
    const changed =
      spoilt.length === 0 ? '' : `Changed, moved or deleted since it was chosen here: ${spoilt.join(', ')}. `;
    return new PeergradError(
      `${left}${changed}Nobody here has all of ${files}: ${missing.length} of ${shared.count} parts are missing. Choose these files again in the ` +
        "host's lobby, and start again; what has come is kept.",
    );
  }
}
