/**
 * A tab's own data, in a run in which every rank has data of its own. Includes the facts about the
 * data on which ranks have agreed, such as columns, classes or characters.
 */
import type { ProcessGroup } from '../../../collectives/processGroup.ts';
import type { LoadDataOptions } from '../../../jobs/fileSource.ts';
import { agreeOnShardFacts, openFederatedShard, type SampleShard, type TextShard } from '../../../jobs/index.ts';
import type { JobSpec } from '../../../spec/job.ts';
import type { ShardFacts } from '../../../spec/dataFacts.ts';
import type { Vocabulary } from '../../../spec/vocabulary.ts';
import type { TrainingProgress } from '../../../parallel/recovery/progress.ts';
import { ranksWithLatestState, rejectDivergentRanks } from '../../../parallel/recovery/stateElection.ts';
import { DataError } from '../../../util/errors.ts';
import { hashOfArrays } from '../../../util/hash.ts';
import { mostFrequentVote } from '../../../util/mostFrequentVote.ts';
import { mixSeed } from '../../../util/rng.ts';
import { createGptTask } from '../../tasks/gptTask.ts';
import { createJobTask, type JobTask } from '../../tasks/jobTask.ts';

export class OwnDataShard {
  readonly #job: JobSpec;
  readonly #files: readonly File[];
  #shard: Promise<SampleShard | TextShard> | null = null;
  readonly #tokens: string | null;
  #agreed: ShardFacts | null;

  /**
   * @param agreed the facts of a resumed run.
   * @param vocabulary the vocabulary of the language model from which the run starts.
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

  /** The facts on which ranks have agreed; `null` before the first agreement. */
  get agreed(): ShardFacts | null {
    return this.#agreed;
  }

  /**
   * Reads the files. Later calls return the same promise.
   *
   * @param options callbacks for the first call.
   *
   * @throws (rejects) DataError if the files cannot be used for training.
   */
  open(options?: Pick<LoadDataOptions, 'onprogress' | 'onundecoded'>): Promise<SampleShard | TextShard> {
    this.#shard ??= openFederatedShard(this.#job, this.#files, options);
    return this.#shard;
  }

  /**
   * Agrees with the other ranks on the facts about the data. If a state is elected, its facts are
   * used. Otherwise the facts are computed from all ranks' data. If a world broke before its first
   * step, its agreement is ignored. Every rank must call it.
   *
   * @param reached the progress of this rank's state, which was trained with the facts that are
   *   agreed so far.
   * @returns whether this rank's facts have changed. If so, its state cannot be used any more.
   * @throws (rejects) DataError on ranks whose data do not match the other ranks' data. Then the
   *   other ranks reject with PeergradError, with `context.divergent`. If the data of all ranks
   *   together cannot be used for training, all ranks reject with DataError.
   */
  async agree(group: ProcessGroup, reached: Pick<TrainingProgress, 'step' | 'appliedIn'> | null): Promise<boolean> {
    const { facts } = await this.open();
    const state = reached && this.#agreed && { ...reached, agreed: JSON.stringify(this.#agreed) };
    const reports = await group.allGatherObject({ facts, state, tokens: this.#tokens });
    const ahead = ranksWithLatestState(reports.map((report) => report.state));
    const elected = mostFrequentVote(ahead.map((rank) => reports[rank]!.state!.agreed));
    const agreement = agreeOnShardFacts(
      reports.map((report) => report.facts),
      elected === undefined ? null : (JSON.parse(elected) as ShardFacts),
      this.#job,
      reports.find(({ tokens }) => tokens !== null)?.tokens ?? null,
    );
    const { divergent } = agreement;
    if (divergent.length > 0) {
      const reasons = divergent.map(
        ({ rank, why }) => `Rank ${rank} has data that do not match the other ranks' data: ${why}.`,
      );
      const ranks = divergent.map(({ rank }) => rank);
      rejectDivergentRanks(
        group,
        ranks,
        DataError,
        `${reasons.join(' ')} Choose other files on that rank, or change its files.`,
      );
    }
    if (JSON.stringify(agreement.facts) === JSON.stringify(this.#agreed)) return false;
    this.#agreed = agreement.facts;
    return true;
  }

  /** Creates the job's task with this data. Call it after {@link agree}. */
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
  return hashOfArrays([new TextEncoder().encode(JSON.stringify(facts))]);
}
