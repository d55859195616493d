/** Gives all ranks of a generation the newest commit. */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { describeModel, differenceBetween } from '../../parallel/ddp/verifyModel.ts';
import { gatherSlices, type ReceivedSlices } from '../../parallel/recovery/gatherSlices.ts';
import { allGatherHashes } from '../../parallel/recovery/hashes.ts';
import { divergentRanks, electState, rejectDivergentRanks } from '../../parallel/recovery/stateElection.ts';
import { MismatchError } from '../../util/errors.ts';
import type { Activity } from '../../util/activity.ts';
import { hashState } from '../../util/hash.ts';
import { list, nameRanks, upperFirst } from '../../util/text.ts';
import type { Commit, CommittedState } from './committedState.ts';

/** Digest of a whole commit. */
export function digestOf({ head, digests }: Pick<Commit, 'head' | 'digests'>): string {
  return hashState([new TextEncoder().encode(JSON.stringify([head.steps, head.generation, digests]))]);
}

/** The parts of a rank's state, which must be the same on all ranks. */
interface Parts {
  digests: Commit['digests'];
  model: ReturnType<typeof describeModel>;
  averages: number;
  scalars: number;
}

export function partsOf({ variables }: CommittedState, { head, arrays, digests }: Commit): Parts {
  return {
    digests,
    model: describeModel(variables, {}),
    averages: arrays.length - 1,
    scalars: head.scalars.length,
  };
}

/** Returns a text that is equal on ranks whose states have the same parts. */
export function programOf({ digests, model, averages, scalars }: Parts): string {
  return JSON.stringify([Object.keys(digests), model, averages, scalars]);
}

interface SynchronizeOptions {
  committed: CommittedState;
  /** Whether this rank has never had the state of this job. */
  isFresh: boolean;
  /** Counts the bytes that arrive as progress of this rank. */
  activity: Activity;
  /** Filled by calls that are interrupted. */
  received: ReceivedSlices;
}

/**
 * Elects the newest commit: the one with the most steps, then the one of the latest generation. If
 * no rank has a commit of this job, it elects rank 0's initial state. Ranks without this commit
 * receive it. Every rank must call it.
 *
 * @returns the digest of the commit, which all ranks have now.
 * @throws (rejects) MismatchError on ranks whose model, optimizer, fields or newest commit differ
 *   from those of most ranks, PeergradError on the other ranks, both with `context.divergent`;
 *   errors of collectives.
 */
export async function synchronize(
  group: ProcessGroup,
  { committed, isFresh, activity, received }: SynchronizeOptions,
): Promise<string> {
  const commit = await committed.read();
  const mine = {
    isFresh,
    step: committed.steps,
    appliedIn: committed.generation,
    digest: digestOf(commit),
    ...partsOf(committed, commit),
  };
  const states = await group.allGatherObject(mine);
  rejectOtherPrograms(group, states, committed);
  const { digest, sources, step } = electState(
    states.map((state) => ({ ...state, previousAppliedIn: 0, verdicts: [], keepsGradient: false })),
  );
  const { appliedIn, digests } = states[sources[0]!]!;
  const divergent = states.flatMap((state, rank) =>
    !state.isFresh && state.step === step && state.appliedIn === appliedIn && state.digest !== digest ? [rank] : [],
  );
  if (divergent.length > 0) {
    const odd = states[divergent[0]!]!.digests;
    const parts = Object.keys(digests).filter((name) => odd[name] !== digests[name]);
    rejectDivergentRanks(
      group,
      divergent,
      MismatchError,
      `After ${step} commits, the state of ${nameRanks(divergent)} differs from the other ranks' state: ${list(parts)}. All ` +
        'fields must have the same values on all ranks when commit is called. Average them first, or keep them outside of the state.',
    );
  }
  if (sources.length === group.worldSize) return digest;

  const source = sources[0]!;
  const head = await group.broadcastObject(group.rank === source ? commit.head : undefined, group.ranks[source]!);
  const arrays = await gatherSlices(group, commit.arrays, sources, { received, onprogress: activity.countBytes() });
  if (!sources.includes(group.rank)) committed.load(head, arrays);
  const hashes = await allGatherHashes(group, digestOf(await committed.read()));
  const wrong = [...hashes.keys()].filter((rank) => hashes[rank] !== digest);
  if (wrong.length > 0) {
    rejectDivergentRanks(
      group,
      wrong,
      MismatchError,
      `The state of ${nameRanks(wrong)} still differs after the other ranks' state was loaded. Either a machine computes wrong ` +
        'results, or it runs another version of the page. Reload the page there.',
    );
  }
  return digest;
}

interface Described extends Parts {
  isFresh: boolean;
}

/** Rejects ranks whose state has other parts than that of most ranks. */
function rejectOtherPrograms(group: ProcessGroup, states: readonly Described[], { variables }: CommittedState): void {
  const votes = states.map(programOf);
  const divergent = divergentRanks(
    votes,
    states.map(({ isFresh }) => isFresh),
  );
  if (divergent.length === 0) return;
  const right = votes.findIndex((_, rank) => !divergent.includes(rank));
  const [odd] = divergent as [number];
  const models = states.map(({ model }) => model);
  const fieldsOf = (rank: number): string => list(Object.keys(states[rank]!.digests));
  const difference =
    differenceBetween(models, right, odd, variables) ??
    (fieldsOf(odd) === fieldsOf(right)
      ? `${upperFirst(nameRanks([odd]))} has another optimizer than ${nameRanks([right])}. Create the same one on every rank.`
      : `The state of ${nameRanks([odd])} has the fields ${fieldsOf(odd)}, but that of ${nameRanks([right])} has ` +
        `${fieldsOf(right)}. Create the same state on every rank.`);
  rejectDivergentRanks(group, divergent, MismatchError, difference);
}
