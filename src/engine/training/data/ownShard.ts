/**
 * A tab's own data in a run whose ranks each have their own, and what they have agreed on of it.
 */
import type { ProcessGroup } from '../../../collectives/processGroup.ts';
import { agreeOn, openShard, type SampleShard, type TextShard } from '../../../jobs/index.ts';
import type { JobSpec } from '../../../spec/job.ts';
import type { ShardFacts } from '../../../spec/dataFacts.ts';
import type { Vocabulary } from '../../../spec/vocabulary.ts';
import type { Progress } from '../../../parallel/recovery/progress.ts';
import { latestStates, rejectDivergentRanks } from '../../../parallel/recovery/stateElection.ts';
import { DataError } from '../../../util/errors.ts';
import { hashState } from '../../../util/hash.ts';
import { majority } from '../../../util/majority.ts';
import { mixSeed } from '../../../util/rng.ts';
import { createGptTask } from '../../tasks/gptTask.ts';
import { createJobTask, type JobTask } from '../../tasks/jobTask.ts';

export class OwnShard {
  readonly #job: JobSpec;
  readonly #files: readonly File[];
  #shard: Promise<SampleShard | TextShard> | null = null;
  readonly #tokens: string | null;
  #agreed: ShardFacts | null;

  /**
   * @param agreed what a run that is gone on with goes by.
   * @param vocabulary of a language model that the run begins with.
   */
  constructor(
    job: JobSpec,
    files: readonly File[],
    {
      agreed = null,
      vocabulary = null,
    }: { agreed?: ShardFacts | null | undefined; vocabulary?: Vocabulary | null | undefined },
  ) {
    this.#job = job;
    this.#files = files;
    this.#tokens = vocabulary?.tokens === 'characters' ? vocabulary.characters : null;
    this.#agreed = agreed;
  }

  /** What the run goes by; `null`: it has not begun. */
  get agreed(): ShardFacts | null {
    return this.#agreed;
  }

  /** Reads the files, once. @throws (rejects) DataError where they cannot be learned from. */
  open(): Promise<SampleShard | TextShard> {
    this.#shard ??= openShard(this.#job, this.#files);
    return this.#shard;
  }

  /**
   * Comes to what the run goes by: what the state that counts was learned by, else what all come to
   * now, also where some have come to something else in a world that broke before its first step.
   * Every rank must call it.
   *
   * @param learned how far the state is that this rank has learned by what it agreed on.
   * @returns whether this rank goes by something else now: a state that it has is of no use any
   *   more.
   * @throws (rejects) DataError on ranks whose data do not fit the others', on these PeergradError,
   *   with `context.odd`; DataError on all where nothing can be learned from all of it together.
   */
  async agree(group: ProcessGroup, learned: Pick<Progress, 'step' | 'appliedIn'> | null): Promise<boolean> {
    const { facts } = await this.open();
    const state = learned && this.#agreed && { ...learned, agreed: JSON.stringify(this.#agreed) };
    const told = await group.allGatherObject({ facts, state, tokens: this.#tokens });
    const ahead = latestStates(told.map((one) => one.state));
    const held = majority(ahead.map((rank) => told[rank]!.state!.agreed));
    const agreement = agreeOn(
      told.map((one) => one.facts),
      held === undefined ? null : (JSON.parse(held) as ShardFacts),
      this.#job,
      told.find(({ tokens }) => tokens !== null)?.tokens ?? null,
    );
    const { divergent } = agreement;
    if (divergent.length > 0) {
      const reasons = divergent.map(({ rank, why }) => `Rank ${rank} has data that do not fit the others': ${why}.`);
      const ranks = divergent.map(({ rank }) => rank);
      rejectDivergentRanks(group, ranks, DataError, `${reasons.join(' ')} Choose other files there, or change them.`);
    }
    if (JSON.stringify(agreement.facts) === JSON.stringify(this.#agreed)) return false;
    this.#agreed = agreement.facts;
    return true;
  }

  /** The job's task with these data, once there is an agreement. */
  async task(): Promise<JobTask> {
    const shard = await this.open();
    const agreed = this.#agreed!;
    const digest = digestOf(agreed);
    const mine = Number.parseInt(digestOf(shard.facts).slice(0, 8), 16);
    const own = { digest, seed: mixSeed(this.#job.seed, mine) };
    if ('read' in shard) return createGptTask(this.#job, await shard.read(agreed), own);
    return createJobTask(this.#job, await shard.load(agreed), 1, own);
  }
}

function digestOf(facts: ShardFacts): string {
  return hashState([new TextEncoder().encode(JSON.stringify(facts))]);
}
