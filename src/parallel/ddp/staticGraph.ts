/** DDP's `staticGraph`: every pass of a rank has to use the parameters that the first one used. */
import { MismatchError } from '../../util/errors.ts';

export class StaticGraph {
  #first: readonly boolean[] | null = null;

  /**
   * @param used for each parameter, whether this pass used it; the first call's are what later ones
   *   are held to.
   * @param parameters to name one.
   * @throws MismatchError where they differ.
   */
  check(used: readonly boolean[], parameters: readonly { name: string }[], rank: number): void {
    this.#first ??= used;
    const changed = this.#first.findIndex((before, parameter) => before !== used[parameter]);
    if (changed < 0) return;
    const [before, now] = used[changed] ? ['did not use', 'does'] : ['used', 'does not'];
    throw new MismatchError(
      `Your training graph has changed on rank ${rank}: the first pass ${before} parameter ${changed} ` +
        `("${parameters[changed]!.name}"), this one ${now}. Leave staticGraph out and set findUnusedParameters.`,
      { rank },
    );
  }
}
