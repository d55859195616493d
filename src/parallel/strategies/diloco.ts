/**
 * `diloco`: every rank trains alone for H steps (AdamW). Then the negative average change of the
 * parameters, weighted by samples, is the gradient for an outer optimizer (Nesterov momentum 0.9,
 * learning rate 0.7) on the shared parameters. An exchange sends as many bytes as with local SGD,
 * but H is in the tens to hundreds.
 *
 * Douillard et al., "DiLoCo: Distributed Low-Communication Training of Language Models" (2023),
 * algorithm 1.
 */
import { LocalSteps, type LocalStepsOptions } from './localSteps.ts';
import type { Optimizer } from '../../optim/optimizer.ts';
import { Replica } from './replica.ts';

interface DilocoOptions extends LocalStepsOptions {
  /** Creates the outer optimizer for a number of parameters. */
  createOuterOptimizer: (size: number) => Optimizer;
}

export class Diloco extends LocalSteps {
  readonly #shared: Float32Array;
  readonly #outer: Optimizer;
  /**
   * The negative change of this rank's parameters since the last exchange. The outer optimizer uses
   * it as a gradient.
   */
  readonly #distance: Float32Array;

  private constructor(replica: Replica, options: DilocoOptions) {
    super(replica, options);
    this.#shared = new Float32Array(replica.size);
    this.#outer = options.createOuterOptimizer(replica.size);
    this.#distance = new Float32Array(replica.size);
  }

  static async create(options: DilocoOptions): Promise<Diloco> {
    return new Diloco(await Replica.create(options), options);
  }

  protected override begin(): void {
    this.#shared.set(this.replica.parameters);
  }

  protected async exchange(): Promise<void> {
    const { parameters } = this.replica;
    for (let i = 0; i < parameters.length; i++) this.#distance[i] = this.#shared[i]! - parameters[i]!;
    await this.average(this.#distance);
    this.#outer.apply(this.#shared, this.#distance);
    parameters.set(this.#shared);
  }

  state(): readonly ArrayBufferView[] {
    const { scalars, slots } = this.#outer.state();
    return [this.replica.parameters, scalars, ...slots];
  }
}
