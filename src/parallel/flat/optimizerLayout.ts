/**
 * The layout of an optimizer's running averages. A model that is wrapped again may have a different
 * layout. If the optimizer is the same, its averages must move to the new layout.
 */
import type { Optimizer } from '../../optim/optimizer.ts';
import { rearrangeParameters, type FlatLayout } from './buckets.ts';

const layouts = new WeakMap<object, FlatLayout>();

/**
 * The layout of each optimizer's averages. Set it after averages in a different layout are loaded.
 */
export const optimizerLayouts: Pick<WeakMap<Optimizer, FlatLayout>, 'get' | 'set'> = layouts;

/**
 * Moves the averages of an optimizer from the places of its layout to those of `layout`. An
 * optimizer without a layout receives `layout`. Does nothing if the averages have a different size,
 * or if the object has only `apply`: such an object manages its averages itself.
 */
export function moveOptimizerAveragesToLayout(optimizer: object, layout: FlatLayout): void {
  const before = layouts.get(optimizer);
  if (before === layout || !hasState(optimizer)) return;
  const averages = optimizer.state().slots;
  if (averages.some(({ length }) => length !== layout.size)) return;
  layouts.set(optimizer, layout);
  if (!before || isInOrder(before, layout) || !hasSameParameters(before, layout)) return;
  for (const average of averages) rearrangeParameters(average, before, layout);
}

function hasState(optimizer: object): optimizer is Optimizer {
  return typeof Reflect.get(optimizer, 'state') === 'function';
}

function isInOrder(a: FlatLayout, b: FlatLayout): boolean {
  return a.slots.every(({ parameter }, i) => parameter === b.slots[i]?.parameter);
}

function hasSameParameters(a: FlatLayout, b: FlatLayout): boolean {
  const sizes = new Map(a.slots.map(({ parameter, size }) => [parameter, size]));
  return sizes.size === b.slots.length && b.slots.every(({ parameter, size }) => sizes.get(parameter) === size);
}
