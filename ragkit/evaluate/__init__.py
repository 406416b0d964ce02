"""Evaluation of retrieval and answers: questions, metrics, reports. Independent of pipelines."""
