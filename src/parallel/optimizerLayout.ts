/**
 * The layout of an optimizer's running averages. A model that is wrapped again may have another
 * layout, so the averages of an optimizer that outlives the first wrapper must follow.
 */
import type { Optimizer } from '../optim/optimizer.ts';
import { rearrange, type FlatLayout } from './ddp/buckets.ts';

const layouts = new WeakMap<object, FlatLayout>();

/**
 * Sets the layout of an optimizer's averages, or returns it. From then on, {@link adoptLayout}
 * moves the averages whenever the layout changes.
 */
export const optimizerLayouts: Pick<WeakMap<Optimizer, FlatLayout>, 'get' | 'set'> = layouts;

/**
 * Moves the averages of an optimizer to the places of `layout`. Does nothing if the optimizer's
 * layout was never set.
 */
export function adoptLayout(optimizer: object, layout: FlatLayout): void {
  const before = layouts.get(optimizer);
  if (!before || before === layout) return;
  layouts.set(optimizer, layout);
  if (before.slots.every(({ parameter }, i) => parameter === layout.slots[i]!.parameter)) return;
  // Only optimizers with averages have a layout, see `optimizerLayouts`.
  for (const average of (optimizer as Optimizer).state().slots) rearrange(average, before, layout);
}
