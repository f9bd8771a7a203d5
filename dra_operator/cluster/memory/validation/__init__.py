"""What the API server refuses, kind by kind: pure functions from objects to field errors.

As strict as the real server where the operator or a user can notice; fields nobody here reads are not checked.
"""
