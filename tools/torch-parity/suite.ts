/** The interface of a suite of comparisons. */

/**
 * A suite of one subject. Its inputs and results go to the function of the same name in
 * reference.py, which reports the differences to PyTorch.
 */
export interface Suite {
  readonly name: string;
  /** Largest allowed difference of any case: float32 rounding. */
  readonly tolerance: number;
  /**
   * Input of reference.py: inputs and this project's results, as JSON with non-finite numbers as
   * strings.
   */
  compute(): Promise<object>;
}
