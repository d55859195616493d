/**
 * Sets how DDP sends gradients: with the codec of the job, or with a codec that is chosen from
 * measured steps.
 */
import type { CodecChoice } from '../../protocol/runResult.ts';
import { isCollectiveCodec, type JobCodec, type PlannedCodec } from '../../spec/codecs.ts';
import type { DistributedDataParallel } from '../ddp/distributedDataParallel.ts';
import type { Variable } from '../backward/flatten.ts';
import { GRADIENT_CODECS } from '../ddp/gradientCodecs.ts';
import { encodedGradients } from '../costs/exchangeCosts.ts';
import { AutoCodec } from './autoCodec.ts';
import type { StepReport } from '../recovery/strategy.ts';

/**
 * Rank of PowerSGD's matrices: the lowest rank with which the paper reaches the accuracy of fp32.
 */
export const POWER_SGD_RANK = 2;
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

export interface TransportOptions {
  codec: PlannedCodec;
  errorFeedback: boolean;
}

export class GradientTransport {
  readonly #ddp: DistributedDataParallel;
  readonly #parameters: readonly Variable[];
  readonly #options: TransportOptions;
  #codec: JobCodec = 'fp32';
  /** Set with `codec: 'auto'`, from the first {@link restart} on. */
  #autoCodec: AutoCodec | null = null;

  constructor(ddp: DistributedDataParallel, parameters: readonly Variable[], options: TransportOptions) {
    this.#ddp = ddp;
    this.#parameters = parameters;
    this.#options = options;
    this.#use(options.codec === 'auto' ? 'fp32' : options.codec, POWER_SGD_START);
  }

  /** Current codec. */
  get codec(): JobCodec {
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
    this.#autoCodec = new AutoCodec(group, encodedGradients(this.#parameters, this.#matrixRank));
  }

  /** Chooses a codec before a step if enough steps are measured. Every rank must call it. */
  async choose(): Promise<CodecChoice | null> {
    const choice = (await this.#autoCodec?.choose()) ?? null;
    if (choice) this.#use(choice.codec, 0);
    return choice;
  }

  /** Records a step for {@link choose}. */
  record(report: StepReport): void {
    this.#autoCodec?.record(report);
  }

  /** @param plainSteps number of uncompressed steps before PowerSGD. */
  #use(codec: JobCodec, plainSteps: number): void {
    this.#codec = codec;
    if (isCollectiveCodec(codec)) return this.#ddp.setTransport(codec, null);
    const { errorFeedback } = this.#options;
    const hook = GRADIENT_CODECS[codec].createHook({ matrixRank: this.#matrixRank, plainSteps, errorFeedback });
    // `auto` chooses such a codec for slow links. With one bucket, a step waits for fewer hops.
    this.#ddp.setTransport('fp32', hook, this.#autoCodec !== null);
  }

  get #matrixRank(): number {
    return this.#options.codec === 'auto' ? CHOSEN_POWER_SGD_RANK : POWER_SGD_RANK;
  }
}
