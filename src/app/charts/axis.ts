/** State that the charts of a run share: the axis, and the step under the pointer. */

export type XAxisUnit = 'step' | 'time';

/**
 * The step under the pointer, and the view in which the pointer is. The crosshair of that view
 * follows the pointer by itself.
 */
export interface PointedStep {
  step: number;
  by: 'charts' | 'timeline';
}
