/** The interface of a suite of comparisons with PyTorch. */

/**
 * A suite of comparisons of one subject. Its inputs and results are passed to the function with the
 * suite's name in reference.py, which computes the same with PyTorch and reports the differences.
 */
export interface Suite {
  readonly name: string;
  /** The largest allowed difference in any case, because of float32 rounding. */
  readonly tolerance: number;
  /**
   * Returns the input of reference.py: the inputs and this project's results. As JSON cannot
   * contain non-finite numbers, they are strings.
   */
  compute(): Promise<object>;
}
