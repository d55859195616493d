/** DDP's `staticGraph`: every pass of a rank must use the parameters that its first pass used. */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { MismatchError } from '../../util/errors.ts';

export class StaticGraph {
  #first: readonly boolean[] | null = null;

  /**
   * Aborts the group if the graph has changed, because the other ranks would wait for gradients
   * that are never sent.
   *
   * @param used for each parameter, whether this pass used it. The first call sets the reference.
   * @param parameters all parameters, whose names are for the error.
   * @throws MismatchError if a pass uses other parameters than the first pass.
   */
  check(used: readonly boolean[], parameters: readonly { name: string }[], group: ProcessGroup): void {
    this.#first ??= used;
    const changed = this.#first.findIndex((before, parameter) => before !== used[parameter]);
    if (changed < 0) return;
    const { rank } = group;
    const [before, now] = used[changed] ? ['did not use', 'does'] : ['used', 'does not'];
    const error = new MismatchError(
      `Your training graph has changed on rank ${rank}: the first pass ${before} parameter ${changed} ` +
        `("${parameters[changed]!.name}"), but this pass ${now}. Set findUnusedParameters instead of staticGraph.`,
      { rank },
    );
    group.abort(error);
    throw error;
  }
}
