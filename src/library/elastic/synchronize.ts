/** Gives all ranks of a generation the newest commit. */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { gatherSlices, type GatherSlicesOptions, type StateParts } from '../../parallel/recovery/gatherSlices.ts';
import type { TrainingProgress } from '../../parallel/recovery/progress.ts';
import {
  exchangeStates,
  recoverElectedState,
  rejectDissenters,
  type EnteringRankState,
  type StateTransfer,
} from '../../parallel/recovery/recover.ts';
import type { StateWithProgress } from '../../parallel/recovery/stateFeed.ts';
import { ranksWithLatestState, rejectDivergentRanks } from '../../parallel/recovery/stateElection.ts';
import { MismatchError } from '../../util/errors.ts';
import { hashOfArrays } from '../../util/hash.ts';
import { dissenters } from '../../util/mostFrequentVote.ts';
import { listInWords, nameRanks, capitalizeFirst } from '../../util/text.ts';
import {
  digestsOfCommitParts,
  type ElasticCommitHead,
  type CommittedState,
  type OptimizerStateSize,
} from './committedState.ts';

/** A rank's report about its commit: the size of the optimizer's state, and digests. */
interface CommitNote extends OptimizerStateSize {
  /** The digest of each part that is not empty, by the name of the part. */
  digests: Record<string, string>;
}

/** Returns the digest of a whole commit. */
export function digestOfCommit({ progress, head, arrays }: StateWithProgress<ElasticCommitHead>): string {
  return digestAt(progress, digestsOfCommitParts({ head, arrays }));
}

function digestAt({ step, appliedIn }: TrainingProgress, digests: Record<string, string>): string {
  return hashOfArrays([new TextEncoder().encode(JSON.stringify([step, appliedIn, digests]))]);
}

/**
 * Elects the newest commit: the one with the most steps. If several commits have this number of
 * steps, it elects the one of the latest generation. If no rank has a commit of this job, it elects
 * rank 0's initial state. Ranks that do not have the elected commit receive it. Every rank must
 * call it.
 *
 * @param isFresh whether this rank has never had the state of this job.
 * @returns the digest of the elected commit. All ranks have this commit then.
 * @throws (rejects) MismatchError on ranks whose model, optimizer, fields or newest commit differ
 *   from those of most ranks. Then the other ranks reject with PeergradError. Both errors have
 *   `context.divergent`. Also rejects with errors of collectives.
 */
export async function synchronizeCommits(
  group: ProcessGroup,
  committed: CommittedState,
  isFresh: boolean,
  gathering: GatherSlicesOptions,
): Promise<string> {
  let reading = committed.read();
  const { progress, head } = await reading;
  const digests = digestsOfCommitParts(await reading);
  const states = await exchangeStates(group, committed.variables, progress, {
    isFresh,
    digest: digestAt(progress, digests),
    keepsGradient: false,
    note: { digests, ...committed.optimizerSize },
  });
  rejectOtherPrograms(group, states);
  rejectOtherCommits(group, states);
  const transfer: StateTransfer<ElasticCommitHead, never, StateParts<ElasticCommitHead>> = {
    // The digest contains the current progress, so that a commit during the transfer changes it.
    digest: async () => digestAt(committed.progress(), digestsOfCommitParts(await reading)),
    head: () => head,
    repeat: null,
    gather: async (theirs, sources) => {
      const { arrays } = await reading;
      return { head: theirs, arrays: await gatherSlices(group, arrays, sources, gathering) };
    },
    load: (state, elected) => {
      committed.load({ ...state, progress: elected });
      // The final digest is that of the loaded values.
      reading = committed.read();
    },
  };
  const recovered = await recoverElectedState(group, states, transfer, progress);
  return recovered.find(({ isCurrent }) => isCurrent)!.digest;
}

/** Rejects the ranks whose state has different parts than the state of the majority. */
function rejectOtherPrograms(group: ProcessGroup, states: readonly EnteringRankState<CommitNote>[]): void {
  const parts = states.map(({ note: { digests, averages, scalars } }) => [Object.keys(digests), averages, scalars]);
  rejectDissenters(group, states, parts, (right, odd) => {
    const [theirs, own] = [right, odd].map((rank) => listInWords(Object.keys(states[rank]!.note.digests)));
    return own === theirs
      ? `${capitalizeFirst(nameRanks([odd]))} has another optimizer than ${nameRanks([right])}. Create the same one on every rank.`
      : `The state of ${nameRanks([odd])} has the fields ${own}, but that of ${nameRanks([right])} has ${theirs}. ` +
          'Create the same state on every rank.';
  });
}

/**
 * Rejects the ranks whose newest commit has different values than the newest commit of the
 * majority.
 */
function rejectOtherCommits(group: ProcessGroup, states: readonly EnteringRankState<CommitNote>[]): void {
  if (states.every(({ isFresh }) => isFresh)) return;
  const latest = ranksWithLatestState(states.map((state) => (state.isFresh ? null : state)));
  const divergent = dissenters(latest.map((rank) => states[rank]!.digest)).map((i) => latest[i]!);
  if (divergent.length === 0) return;
  const right = latest.find((rank) => !divergent.includes(rank))!;
  const [theirs, own] = [right, divergent[0]!].map((rank) => states[rank]!.note.digests);
  const parts = Object.keys(theirs!).filter((name) => own![name] !== theirs![name]);
  rejectDivergentRanks(
    group,
    divergent,
    MismatchError,
    `After ${states[right]!.step} commits, the state of ${nameRanks(divergent)} differs from the other ranks' state: ${listInWords(parts)}. All ` +
      'fields must have the same values on all ranks when commit is called. Average them first, or keep them outside of the state.',
  );
}
