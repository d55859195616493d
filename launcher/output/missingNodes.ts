/** Tells the user of node 0 which nodes a run still waits for, and how to start them. */
import type { EngineEvent } from '../../src/protocol/events.ts';
import type { Placement, PlacementOptions } from '../options/placement.ts';

/** The largest number of missing nodes that a line names. */
const MAX_NAMED = 8;

/** Follows the room until all nodes are there. */
export class MissingNodes {
  readonly #placement: Placement;
  /**
   * Whether each process is one rank, as with RANK and WORLD_SIZE. Messages then name ranks, not
   * nodes.
   */
  readonly #isByRank: boolean;
  #line: string | null = null;
  #isComplete = false;

  constructor(placement: Placement, { nnodes }: PlacementOptions) {
    this.#placement = placement;
    this.#isByRank = nnodes === undefined;
  }

  /**
   * The sentence about the nodes that are missing; `null` if no node is missing or nothing is known
   * yet.
   */
  get line(): string | null {
    return this.#isComplete ? null : this.#line;
  }

  /** Handles an event of one tab. Returns a line if the missing nodes have changed. */
  on(event: EngineEvent): string | null {
    if (event.type !== 'room' || event.phase !== 'FORMING') return null;
    const { worldSize, tabs } = this.#placement;
    if (tabs >= worldSize) return null;
    const line = this.#describe(event.members.map(({ rank }) => rank));
    if (line === this.#line) return null;
    this.#line = line;
    return line;
  }

  #describe(ranks: readonly (number | null)[]): string {
    const { worldSize, tabs, elastic } = this.#placement;
    // In an elastic run, no tab requests a rank. So only the number of the ranks present is known.
    if (elastic !== null) {
      const here = Math.min(ranks.length, worldSize);
      this.#isComplete = here === worldSize;
      return `${here} of the ${worldSize} ranks that start the run ${here === 1 ? 'is' : 'are'} here.`;
    }
    const present = new Set(ranks.flatMap((rank) => (rank === null ? [] : [Math.floor(rank / tabs)])));
    const count = worldSize / tabs;
    const missing = Array.from({ length: count }, (_, node) => node).filter((node) => !present.has(node));
    this.#isComplete = missing.length === 0;
    const here = count - missing.length;
    const [all, one] = this.#isByRank ? ['processes', 'rank'] : ['nodes', 'node'];
    const place = `${here} of ${count} ${all} ${here === 1 ? 'is' : 'are'} here`;
    if (missing.length === 0) return `${place}.`;
    const named = missing.slice(0, MAX_NAMED).join(', ');
    const more = missing.length > MAX_NAMED ? ` and ${missing.length - MAX_NAMED} more` : '';
    return `${place}; ${missing.length === 1 ? `${one} ${named} is` : `${one}s ${named}${more} are`} missing.`;
  }
}

/**
 * Returns lines with the command that starts the other processes of a run. If there are several,
 * the command contains N in place of a process's number.
 */
export function callOthers(
  { worldSize, tabs, master }: Placement,
  { nnodes, rdzvId }: PlacementOptions & { rdzvId?: string },
): [string, string] {
  const { min, max } = typeof nnodes === 'object' ? nnodes : { min: nnodes, max: nnodes ?? worldSize };
  const number = max === 2 ? '1' : 'N';
  const place = max === 2 ? 'On the other machine' : `On the other machines, where N is 1 to ${max - 1}`;
  const id = rdzvId === undefined ? '' : ` --rdzv-id ${quoted(rdzvId)}`;
  const { host, port } = master;
  const command =
    min === undefined
      ? `RANK=${number} WORLD_SIZE=${worldSize} MASTER_ADDR=${host} MASTER_PORT=${port} peergrad run${id}`
      : `peergrad run --nnodes ${min === max ? max : `${min}:${max}`} --node-rank ${number} --nproc-per-node ${tabs} ` +
        `--master-addr ${host} --master-port ${port}${id}`;
  return [`${place}, run:`, `  ${command}`];
}

/** Quotes text for a POSIX shell, if necessary. */
function quoted(text: string): string {
  return /^[\w.,:/@+-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
