/**
 * A tab's own data in a run whose ranks each have their own, and the facts that they have agreed
 * on.
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
   * @param agreed the facts of a resumed run.
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

  /** The agreed facts; `null` before the run has begun. */
  get agreed(): ShardFacts | null {
    return this.#agreed;
  }

  /** Reads the files, once. @throws (rejects) DataError if they cannot be trained on. */
  open(): Promise<SampleShard | TextShard> {
    this.#shard ??= openShard(this.#job, this.#files);
    return this.#shard;
  }

  /**
   * Agrees with the other ranks on the facts of the data: the facts of the elected state, otherwise
   * those of all ranks' data. An agreement of a world that broke before its first step does not
   * count. Every rank must call it.
   *
   * @param reached how far this rank's state is, which was learned by the facts that it agreed on.
   * @returns whether this rank has other facts now. Its state is then of no use.
   * @throws (rejects) DataError on ranks whose data do not fit those of the others, and
   *   PeergradError on the others, with `context.divergent`; DataError on all if all data together
   *   cannot be trained on.
   */
  async agree(group: ProcessGroup, reached: Pick<Progress, 'step' | 'appliedIn'> | null): Promise<boolean> {
    const { facts } = await this.open();
    const state = reached && this.#agreed && { ...reached, agreed: JSON.stringify(this.#agreed) };
    const reports = await group.allGatherObject({ facts, state, tokens: this.#tokens });
    const ahead = latestStates(reports.map((report) => report.state));
    const elected = majority(ahead.map((rank) => reports[rank]!.state!.agreed));
    const agreement = agreeOn(
      reports.map((report) => report.facts),
      elected === undefined ? null : (JSON.parse(elected) as ShardFacts),
      this.#job,
      reports.find(({ tokens }) => tokens !== null)?.tokens ?? null,
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

  /** Creates the job's task with these data, after an agreement. */
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
