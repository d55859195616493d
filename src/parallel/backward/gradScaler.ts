/**
 * Loss scaling for mixed precision (Micikevicius et al., "Mixed Precision Training", 2018). Small
 * gradients would become zero in float16. So the loss is multiplied by a scale before
 * back-propagation, and the gradients are divided by that scale afterwards.
 *
 * Unlike PyTorch's GradScaler, an overflow does not skip the step: the rank computes the pass again
 * with a smaller scale before it sends anything. So every sample is used once, and ranks with
 * different scales, or in full precision, can train together.
 */
import * as tf from '@tensorflow/tfjs';
import { inHalfPrecision } from '../../gpu/kernels/halfPrecision.ts';
import { UsageError } from '../../util/errors.ts';
import { checkWholeAtLeast } from '../groups/checks.ts';
import { TensorReader, type ComputedGradients, type Scalar } from './flatten.ts';

export interface GradScalerOptions {
  /**
   * First scale: a power of two, at least 1. PyTorch starts with 65 536, for mean losses. Here
   * losses are sums over the samples of a batch, which have larger gradients. Default 1024.
   */
  initScale?: number;
  /** Number of passes without an overflow after which the scale is doubled. Default 2000. */
  growthInterval?: number;
}

export class GradScaler {
  readonly #growthInterval: number;
  readonly #reader = new TensorReader();
  #scale: number;
  #finitePasses = 0;

  /** @throws UsageError for an option out of its range. */
  constructor({ initScale = 1024, growthInterval = 2000 }: GradScalerOptions = {}) {
    checkWholeAtLeast('initScale', initScale, 1);
    checkWholeAtLeast('growthInterval', growthInterval, 1);
    // Repeated halving must reach 1. Factors that are not powers of two would also round gradients.
    if (!Number.isInteger(Math.log2(initScale))) {
      throw new UsageError(`initScale is ${initScale}; pass a power of two.`);
    }
    this.#scale = initScale;
    this.#growthInterval = growthInterval;
  }

  /** The factor of the loss in the next pass. It is a power of two, so scaling rounds nothing. */
  get scale(): number {
    return this.#scale;
  }

  /**
   * Runs `compute` in mixed precision and unscales its result. After an overflow, halves the scale
   * and runs `compute` again. If values are not finite even with a scale of 1, returns them.
   * Metrics are not checked, because they may not be finite in full precision either.
   *
   * @param compute differentiates the loss times `scale`. All its ops run before it first waits.
   * @returns gradients on the CPU. The caller disposes of them.
   */
  async differentiate(
    compute: (scale: number) => ComputedGradients | Promise<ComputedGradients>,
  ): Promise<ComputedGradients> {
    for (;;) {
      const scale = this.#scale;
      const scaled = await inHalfPrecision(() => compute(scale));
      try {
        const { gradients, isFinite } = await gradientsOnCpu(scaled, scale, this.#reader);
        if (isFinite || scale === 1) {
          this.#count();
          return gradients;
        }
        gradients.dispose();
      } finally {
        scaled.dispose();
      }
      this.#scale = scale / 2;
      this.#finitePasses = 0;
    }
  }

  dispose(): void {
    this.#reader.dispose();
  }

  #count(): void {
    this.#finitePasses += 1;
    if (this.#finitePasses < this.#growthInterval) return;
    this.#scale *= 2;
    this.#finitePasses = 0;
  }
}

/**
 * Reads `computed` from the GPU and divides all its values by `scale`.
 *
 * @returns gradients with tensors on the CPU, and whether the loss and all gradients are finite.
 */
async function gradientsOnCpu(
  computed: ComputedGradients,
  scale: number,
  reader: TensorReader,
): Promise<{ gradients: ComputedGradients; isFinite: boolean }> {
  const { value, metrics, gradients, used, readyOrder } = computed;
  const tensors = [...(metrics ? [metrics] : []), value, ...gradients];
  const flat = new Float32Array(tensors.reduce((sum, { size }) => sum + size, 0));
  await reader.read(0, tensors, flat);
  const firstCounted = metrics?.size ?? 0;
  let isFinite = true;
  for (let i = 0; i < flat.length; i++) {
    flat[i]! /= scale;
    if (i >= firstCounted) isFinite &&= Number.isFinite(flat[i]);
  }
  let at = 0;
  const onCpu = tensors.map(({ shape, size }) => tf.tensor(flat.subarray(at, (at += size)), shape, 'float32'));
  const rest = [...onCpu];
  return {
    isFinite,
    gradients: {
      ...(metrics && { metrics: rest.shift()! }),
      value: rest.shift() as Scalar,
      gradients: rest,
      used,
      readyOrder,
      dispose: () => tf.dispose(onCpu),
    },
  };
}
