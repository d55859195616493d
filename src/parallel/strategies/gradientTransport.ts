/**
 * Sets how DDP sends gradients: with the codec of the job, or with a codec that is chosen from
 * measured steps. The first steps of a generation use fp32 and are timed, then all ranks choose.
 */
import type { CodecChoice } from '../../protocol/runResult.ts';
import { isCollectiveCodec, type JobCodecName, type CodecSetting } from '../../spec/codecs.ts';
import type { CodecOptions } from '../../spec/plan.ts';
import type { DistributedDataParallel } from '../ddp/distributedDataParallel.ts';
import type { Variable } from '../backward/flatten.ts';
import { GRADIENT_CODECS } from '../ddp/gradientCodecs.ts';
import { chooseCodec, isCodecChoiceCertain, type MeasuredSteps } from '../costs/codecChoice.ts';
import { encodedGradients, type EncodedGradients } from '../costs/exchangeCosts.ts';
import { median } from '../../util/statistics.ts';
import type { StepReport } from './strategy.ts';

/**
 * Rank of PowerSGD's matrices: the lowest rank that reaches the accuracy of fp32 in the paper on
 * PowerSGD.
 */
export const POWER_SGD_MATRIX_RANK = 2;
/**
 * Rank of PowerSGD's matrices for `auto`, which must not slow down learning. Measured with an mlp
 * with 256 hidden units on MNIST, 4 ranks and batches of 256: fp32 reaches 90 % accuracy after 12
 * steps. The matrix ranks 2, 4, 8 and 16 need 24, 16, 12 and 12 steps, and send 1/71, 1/37, 1/18
 * and 1/10 of the bytes.
 */
const CHOSEN_POWER_SGD_RANK = 8;
/**
 * Number of uncompressed steps before PowerSGD. With `auto` there are none, because `auto` has
 * already measured uncompressed steps. More uncompressed steps would send more bytes than all
 * compressed steps. An mlp on MNIST sent 48 times fewer bytes than with fp32 after 2 uncompressed
 * steps, and 37 times fewer after 4, at the same accuracy.
 */
const POWER_SGD_START = 2;
/**
 * Number of steps before the timed steps. The first step of a generation may take longer, because
 * shaders are compiled and links have not reached their full speed. If this step alone shows
 * clearly that a codec with rounding is better, that codec is chosen immediately. fp32 is chosen
 * only after timed steps.
 */
const FIRST = 1;
/**
 * Largest number of timed steps. The median of three tolerates one outlier. More steps would take
 * too long, because a step with fp32 may take seconds.
 */
const TIMED = 3;

export interface GradientTransportOptions extends CodecOptions {
  codec: CodecSetting;
}

export class GradientTransport {
  readonly #ddp: DistributedDataParallel;
  readonly #parameters: readonly Variable[];
  readonly #options: GradientTransportOptions;
  #codec: JobCodecName = 'fp32';
  /**
   * Sizes and coding times of the gradient with each codec. `null` until the first {@link restart},
   * and always unless the codec is `auto`.
   */
  #gradients: EncodedGradients | null = null;
  /** The steps that are measured so far; `null` while none is measured. */
  #reports: StepReport[] | null = null;

  constructor(ddp: DistributedDataParallel, parameters: readonly Variable[], options: GradientTransportOptions) {
    this.#ddp = ddp;
    this.#parameters = parameters;
    this.#options = options;
    this.#use(options.codec === 'auto' ? 'fp32' : options.codec, POWER_SGD_START);
  }

  get codec(): JobCodecName {
    return this.#codec;
  }

  get gradientBytes(): number {
    if (isCollectiveCodec(this.#codec)) return this.#ddp.gradientBytes;
    const tallyBytes = this.#ddp.gradientBytes - this.#ddp.layout.size * Float32Array.BYTES_PER_ELEMENT;
    return this.bucketBytes.reduce((sum, bytes) => sum + bytes, tallyBytes);
  }

  get bucketBytes(): readonly number[] {
    const codec = this.#codec;
    if (isCollectiveCodec(codec)) return this.#ddp.bucketBytes;
    return this.#ddp.layout.buckets.map(({ slots }) =>
      GRADIENT_CODECS[codec].bytesOf(
        slots.map(({ parameter }) => this.#parameters[parameter]!),
        this.#matrixRank,
      ),
    );
  }

  /**
   * Measures again in another group, because its links differ. Does nothing unless the codec is
   * `auto`.
   */
  restart(): void {
    if (this.#options.codec !== 'auto') return;
    const { group } = this.#ddp;
    this.#use('fp32', 0);
    this.#gradients = encodedGradients(this.#parameters, this.#matrixRank);
    this.#reports = group.worldSize > 1 ? [] : null;
  }

  /** Records a step for {@link choose}. Every rank must record the same step. */
  record(report: StepReport): void {
    this.#reports?.push(report);
  }

  /**
   * Chooses a codec before a step, if the choice is certain enough or enough steps are timed. Every
   * rank must call it.
   *
   * @returns the choice, once; otherwise `null`.
   */
  async choose(): Promise<CodecChoice | null> {
    const reports = this.#reports;
    if (!reports?.length) return null;
    const { worldSize } = this.#ddp.group;
    const steps = await this.#measured(reports.length > FIRST ? reports.slice(FIRST) : reports);
    const choice = chooseCodec(worldSize, this.#gradients!, steps);
    const isClear = isCodecChoiceCertain(worldSize, this.#gradients!, steps);
    const isKnown = isClear && (reports.length > FIRST || choice.codec !== 'fp32');
    if (!isKnown && reports.length < FIRST + TIMED) return null;
    this.#reports = null;
    this.#use(choice.codec, 0);
    return choice;
  }

  async #measured(timed: readonly StepReport[]): Promise<MeasuredSteps> {
    const medianOf = (pick: (report: StepReport) => number): number => median(timed.map(pick));
    const own = Float64Array.of(
      medianOf(({ compute, readback, update }) => compute + readback + update),
      medianOf(({ communicate }) => communicate),
      medianOf(({ exposed }) => exposed),
    );
    const all = await this.#ddp.group.allGather(own);
    const column = (i: number): number[] => all.map((row) => row[i]!);
    return {
      ownMs: Math.max(...column(0)),
      // A rank that waits for a slower rank measures its wait as communication, so the shortest
      // time of all ranks is used.
      communicateMs: Math.min(...column(1)),
      exposedMs: Math.min(...column(2)),
    };
  }

  /** @param plainSteps number of uncompressed steps before PowerSGD. */
  #use(codec: JobCodecName, plainSteps: number): void {
    this.#codec = codec;
    if (isCollectiveCodec(codec)) return this.#ddp.setTransport(codec, null);
    const hook = GRADIENT_CODECS[codec].createHook({ ...this.#options, matrixRank: this.#matrixRank, plainSteps });
    // If `auto` chooses a codec that has a hook, links are slow. All gradients are then in one
    // bucket, so that a step waits for fewer hops.
    this.#ddp.setTransport('fp32', hook, this.#gradients !== null);
  }

  get #matrixRank(): number {
    return this.#options.codec === 'auto' ? CHOSEN_POWER_SGD_RANK : POWER_SGD_MATRIX_RANK;
  }
}
