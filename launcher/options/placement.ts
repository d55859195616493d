/**
 * Determines the ranks of this process and the address of rank 0, from torchrun's options and from
 * the environment that torch.distributed's `env://` reads
 * (https://docs.pytorch.org/docs/stable/elastic/run.html,
 * https://docs.pytorch.org/docs/stable/distributed.html#environment-variable-initialization).
 */
import { MAX_WORLD_SIZE } from '../../src/protocol/scalars.ts';
import type { NodeCountRange } from '../../src/protocol/room.ts';
import { UsageError } from '../../src/util/errors.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

export interface PlacementOptions {
  tabs?: number;
  nprocPerNode?: number;
  /** Number of machines. If it is a range, ranks may join and leave during the run. */
  nnodes?: number | NodeCountRange;
  nodeRank?: number;
  masterAddr?: string;
  masterPort?: number;
}

export interface Placement {
  /** Number of ranks of all processes. In an elastic run: the number of ranks at its start. */
  worldSize: number;
  /** The smallest and largest number of ranks of an elastic run; `null`: the world is fixed. */
  elastic: NodeCountRange | null;
  /** First rank of this process's tabs. The process with rank 0 runs the server. */
  firstRank: number;
  tabs: number;
  /**
   * Address of rank 0's process. Port 0 means any free port. It is the default if this process has
   * all ranks, because no other process then needs to know the port.
   */
  master: { host: string; port: number };
}

/** The default of torch.distributed.run. */
const DEFAULT_MASTER_PORT = 29500;
/** Default number of tabs, enough to see a ring. */
const DEFAULT_TABS = 4;
const LOOPBACK = '127.0.0.1';

/** @throws UsageError if options and environment contradict each other or are out of range. */
export function placementOf(options: PlacementOptions, env: Environment): Placement {
  const nodes = options.nnodes === undefined && isSet(env['RANK']) ? oneRank(options, env) : nodesOf(options, env);
  const { worldSize, nodeRank, tabs, elastic } = nodes;
  const most = elastic?.max ?? worldSize;
  if (most > MAX_WORLD_SIZE) {
    throw new UsageError(`A world of ${most} ranks is too large. At most ${MAX_WORLD_SIZE} ranks are possible.`);
  }
  const isAlone = tabs === most;
  const port = agreed('--master-port', options.masterPort, 'MASTER_PORT', wholeEnv(env, 'MASTER_PORT', 1, 65535));
  const host = agreed('--master-addr', options.masterAddr, 'MASTER_ADDR', textEnv(env, 'MASTER_ADDR'));
  if (host === undefined && nodes.needsMaster) {
    const others = `The world has ${worldSize} ranks, and this process has only ${tabs} of them`;
    throw new UsageError(
      `${others}. Pass the address of the process that has rank 0 as --master-addr (or MASTER_ADDR).`,
    );
  }
  return {
    worldSize,
    elastic,
    tabs,
    firstRank: nodeRank * tabs,
    master: { host: host ?? LOOPBACK, port: port ?? (isAlone ? 0 : DEFAULT_MASTER_PORT) },
  };
}

/**
 * Returns the rank that the tab of `join` requests: RANK in the environment, if there is a single
 * tab.
 *
 * @throws UsageError if RANK is set but there are several tabs.
 */
export function rankOfJoin(tabs: number, env: Environment): number | null {
  const rank = wholeEnv(env, 'RANK', 0, MAX_WORLD_SIZE - 1);
  if (rank !== undefined && tabs !== 1) throw new UsageError(oneTabOnly(rank, tabs));
  return rank ?? null;
}

interface Machines {
  worldSize: number;
  elastic: NodeCountRange | null;
  nodeRank: number;
  /** Number of tabs per node. */
  tabs: number;
  /** Whether the address of rank 0 must be given. */
  needsMaster: boolean;
}

/** Returns torchrun's layout: `nnodes` machines, all with the same number of tabs. */
function nodesOf(options: PlacementOptions, env: Environment): Machines {
  const range = typeof options.nnodes === 'object' ? options.nnodes : null;
  const nnodes = typeof options.nnodes === 'object' ? options.nnodes.min : (options.nnodes ?? 1);
  const most = range?.max ?? nnodes;
  const rank = wholeEnv(env, 'RANK', 0);
  const localRank = wholeEnv(env, 'LOCAL_RANK', 0);
  const envWorldSize = wholeEnv(env, 'WORLD_SIZE', 1);
  const nodeRank = agreed('--node-rank', options.nodeRank, 'NODE_RANK', wholeEnv(env, 'NODE_RANK', 0)) ?? 0;
  const share = (envWorldSize ?? 0) / nnodes;
  const tabs = tabsOf(options) ?? (Number.isInteger(share) && share > 0 ? share : DEFAULT_TABS);
  const worldSize = nnodes * tabs;
  if (envWorldSize !== undefined && envWorldSize !== worldSize) {
    throw new UsageError(
      `WORLD_SIZE is ${envWorldSize}, but --nnodes ${nnodes} with ${tabs} tabs each makes ${worldSize} ranks. Change one of them.`,
    );
  }
  if (nodeRank >= most) {
    throw new UsageError(`There is no node rank ${nodeRank} with --nnodes ${most}. Node ranks are 0 .. ${most - 1}.`);
  }
  if (rank !== undefined && rank >= most * tabs) throw new UsageError(noRank(rank, most * tabs));
  if (localRank !== undefined && localRank >= tabs) {
    throw new UsageError(`LOCAL_RANK is ${localRank}, but a node has ${tabs} tabs. Local ranks are 0 .. ${tabs - 1}.`);
  }
  const first = nodeRank * tabs;
  if (rank !== undefined && (rank < first || rank >= first + tabs)) {
    throw new UsageError(
      `RANK is ${rank}, but node ${nodeRank} has ranks ${first} to ${first + tabs - 1}. Unset RANK, or change --node-rank.`,
    );
  }
  const elastic = range && { min: range.min * tabs, max: range.max * tabs };
  return { worldSize, elastic, nodeRank, tabs, needsMaster: most > 1 };
}

/** Returns the layout of `env://`: one process per rank, started by hand. */
function oneRank(options: PlacementOptions, env: Environment): Machines {
  const rank = wholeEnv(env, 'RANK', 0)!;
  const worldSize = wholeEnv(env, 'WORLD_SIZE', 1);
  const localRank = wholeEnv(env, 'LOCAL_RANK', 0);
  if (worldSize === undefined) {
    throw new UsageError(`RANK is ${rank}, but WORLD_SIZE is not set. Set both of them, or neither.`);
  }
  if (rank >= worldSize) throw new UsageError(noRank(rank, worldSize));
  const tabs = tabsOf(options) ?? 1;
  if (tabs !== 1) throw new UsageError(oneTabOnly(rank, tabs));
  // On each machine, ranks have the same order as local ranks, so a rank is never smaller than its
  // local rank.
  if (localRank !== undefined && localRank > rank) {
    throw new UsageError(
      `LOCAL_RANK is ${localRank}, but RANK is ${rank}. A local rank is never larger than the rank.`,
    );
  }
  if (options.nodeRank !== undefined) {
    throw new UsageError(
      `RANK is set (${rank}), so this process is one rank and has no node rank. Remove --node-rank ${options.nodeRank}, or pass --nnodes.`,
    );
  }
  return { worldSize, elastic: null, nodeRank: rank, tabs, needsMaster: rank > 0 };
}

function tabsOf({ tabs, nprocPerNode }: PlacementOptions): number | undefined {
  if (tabs !== undefined && nprocPerNode !== undefined && tabs !== nprocPerNode) {
    throw new UsageError(
      `--tabs ${tabs} and --nproc-per-node ${nprocPerNode} are the same option. Pass only one of them.`,
    );
  }
  return tabs ?? nprocPerNode;
}

function noRank(rank: number, worldSize: number): string {
  return `There is no RANK ${rank} in a world of ${worldSize}. Ranks are 0 .. ${worldSize - 1}.`;
}

function oneTabOnly(rank: number, tabs: number): string {
  return `RANK ${rank} in the environment is for a single tab, but ${tabs} tabs are requested. Unset RANK, or open 1 tab.`;
}

/**
 * Returns the value of the option, or else of the environment variable. If both are set, they must
 * be equal.
 */
function agreed<Value extends string | number>(
  flag: string,
  passed: Value | undefined,
  variable: string,
  found: Value | undefined,
): Value | undefined {
  if (passed !== undefined && found !== undefined && passed !== found) {
    throw new UsageError(
      `${flag} ${passed} contradicts the environment, where ${variable} is ${found}. Pass or set only one of them.`,
    );
  }
  return passed ?? found;
}

function isSet(text: string | undefined): text is string {
  return text !== undefined && text !== '';
}

function textEnv(env: Environment, name: string): string | undefined {
  return isSet(env[name]) ? env[name] : undefined;
}

function wholeEnv(env: Environment, name: string, min: number, max = Number.MAX_SAFE_INTEGER): number | undefined {
  const text = textEnv(env, name);
  if (text === undefined) return undefined;
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (value >= min && value <= max) return value;
  const bounds = max === Number.MAX_SAFE_INTEGER ? `from ${min}` : `from ${min} to ${max}`;
  throw new UsageError(`${name} is "${text}" in the environment. Set it to a whole number ${bounds}.`);
}
