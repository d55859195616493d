/** State that the charts of a run share: the axis, and the step under the pointer. */

export type XAxis = 'step' | 'time';

/**
 * The step under the pointer, and the view that the pointer is in. That view moves its own
 * crosshair.
 */
export interface Pointed {
  step: number;
  by: 'charts' | 'timeline';
}
